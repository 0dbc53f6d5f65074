// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/h2"
)

// TestConformanceServerShutdown lets the running requests finish and begins no others.
func TestConformanceServerShutdown(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		proceed := make(chan struct{})
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			_, _ = io.WriteString(w, "begun, ")
			_ = http.NewResponseController(w).Flush()
			<-proceed
			_, _ = io.Copy(w, r.Body)
		}, options{})
		var running []*http.Response
		var uploads []*io.PipeWriter
		for range 10 {
			in, out := io.Pipe()
			running = append(running, r.do(t, r.request(t, http.MethodPost, "/", in)))
			uploads = append(uploads, out)
		}
		shut := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { shut <- r.server.Shutdown(ctx) }()
		for {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/alive", nil))
			if err != nil {
				if !p.client.refused(err) {
					t.Errorf("got %v, want an error that says that the request was not begun", err)
				}
				break
			}
			_ = res.Body.Close()
		}
		close(proceed)
		for i, res := range running {
			if _, err := io.WriteString(uploads[i], "and finished"); err != nil {
				t.Error(err)
			}
			_ = uploads[i].Close()
			want(t, "answer", text(t, res.Body), "begun, and finished")
		}
		want(t, "shutdown", receive(t, "shutdown", shut), nil)
	})
}

// TestConformanceServerShutdownOfNothing ends at once.
func TestConformanceServerShutdownOfNothing(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(http.ResponseWriter, *http.Request) {}, options{})
		r.alive(t)
		want(t, "shutdown", r.server.Shutdown(t.Context()), nil)
		if _, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/alive", nil)); err == nil {
			t.Error("got an answer, want an error")
		}
	})
}

// TestConformanceShutdownHasItsLimit returns with the context's error while requests run, and
// leaves them alone.
func TestConformanceShutdownHasItsLimit(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		for _, end := range []string{"server", "client"} {
			proceed := make(chan struct{})
			r := p.connect(t, func(w http.ResponseWriter, _ *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-proceed
				_, _ = io.WriteString(w, "finished")
			}, options{})
			res := r.get(t, "/", http.StatusOK)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			var err error
			if end == "server" {
				err = r.server.Shutdown(ctx)
			} else {
				err = r.client.Shutdown(ctx)
			}
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want %v", end, err, context.DeadlineExceeded)
			}
			close(proceed)
			if end == "client" && p.client.name == wellKnown.name {
				continue // x/net's client takes back that it is closing, and may not
			}
			want(t, end, text(t, res.Body), "finished")
		}
	})
}

// TestConformanceClientShutdown lets the running requests finish and begins no others.
func TestConformanceClientShutdown(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		proceed := make(chan struct{})
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begun, ")
			_ = http.NewResponseController(w).Flush()
			<-proceed
			_, _ = io.WriteString(w, "and finished")
		}, options{})
		var running []*http.Response
		for range 10 {
			running = append(running, r.get(t, "/", http.StatusOK))
		}
		shut := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() { shut <- r.client.Shutdown(ctx) }()
		for {
			body := newReader(noEnd)
			req := r.request(t, http.MethodPost, "/", body)
			ctx, cancel := context.WithCancel(req.Context())
			res, err := r.client.RoundTrip(req.WithContext(ctx))
			cancel()
			if err != nil {
				if !p.client.refused(err) {
					t.Errorf("got %v, want an error that says that the request was not begun", err)
				}
				_ = receive(t, "body of what was not begun", body.closed)
				break
			}
			_ = res.Body.Close()
		}
		close(proceed)
		for _, res := range running {
			want(t, "answer", text(t, res.Body), "begun, and finished")
		}
		want(t, "shutdown", receive(t, "shutdown", shut), nil)
	})
}

// TestConformanceConnectionsEnd has whatever is under way fail on both sides, however the
// connection ends.
func TestConformanceConnectionsEnd(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"the server closes":                   func(r *rig) { _ = r.server.Close() },
		"the client closes":                   func(r *rig) { _ = r.client.Close() },
		"the server's end of the wire is cut": func(r *rig) { _ = r.farther.Close() },
		"the client's end of the wire is cut": func(r *rig) { _ = r.clientEnd.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			conform(t, func(t *testing.T, p pairing) {
				const each = 5
				paths := []string{"/head", "/body", "/announced", "/upload", "/stalled"}
				begun := make(chan struct{}, each*len(paths))
				ended := make(chan handled, each*len(paths))
				r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
					var h handled
					switch r.URL.Path {
					case "/announced":
						w.Header().Set("Content-Length", "1000")
						fallthrough
					case "/body", "/upload":
						_, _ = io.WriteString(w, "begun")
						_ = http.NewResponseController(w).Flush()
					}
					begun <- struct{}{}
					switch r.URL.Path {
					case "/upload":
						_, h.read = io.Copy(io.Discard, r.Body)
					case "/stalled":
						_, h.write = io.Copy(w, newReader(noEnd))
					}
					<-r.Context().Done()
					h.cause = r.Context().Err()
					ended <- h
				}, options{})
				var asking sync.WaitGroup
				for _, path := range paths {
					for range each {
						asking.Go(func() {
							req := r.request(t, http.MethodGet, path, nil)
							if path == "/upload" {
								in, out := io.Pipe()
								req = r.request(t, http.MethodPost, path, in)
								go func() { _, _ = io.WriteString(out, "begun") }()
							}
							res, err := r.client.RoundTrip(req)
							if err != nil {
								return
							}
							if path == "/head" {
								t.Errorf("%s: got %s, want an error", path, res.Status)
							}
							if path != "/stalled" {
								wantCut(t, path, res.Body)
							}
							_ = res.Body.Close()
						})
					}
				}
				for range each * len(paths) {
					_ = receive(t, "request", begun)
				}
				end(r)
				asking.Wait()
				for range each * len(paths) {
					if h := receive(t, "handler", ended); h.cause == nil || errors.Is(h.read, io.EOF) {
						t.Errorf("the handler has seen %+v, want errors", h)
					}
				}
				if _, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/", nil)); err == nil {
					t.Error("a request behind the connection's end: got no error")
				}
			})
		})
	}
}

// TestConformanceOverTLS has a connection whose ends announce their end not end requests under way.
func TestConformanceOverTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	certificates := certified.TLS.Certificates
	certified.Close()
	conform(t, func(t *testing.T, p pairing) {
		for _, end := range []string{"client", "server", "wire"} {
			near, far := loopbackPair(t)
			client := tls.Client(h2.Coalesce(near), &tls.Config{InsecureSkipVerify: true})
			server := tls.Server(h2.Coalesce(far), &tls.Config{Certificates: certificates})
			// net/http's server does otherwise with what it knows as TLS.
			r := p.over(t, layer{client}, layer{server}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/echo" {
					_, _ = io.Copy(w, r.Body)
					return
				}
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}), options{})
			data, sum := content(1, 1<<20)
			got, _, err := sumOf(r.do(t, r.request(t, http.MethodPost, "/echo", bytes.NewReader(data))).Body)
			if err != nil || got != sum {
				t.Errorf("echo: got %v, want all bytes", err)
			}
			res := r.get(t, "/", http.StatusOK)
			switch end {
			case "client":
				_ = r.client.Close()
			case "server":
				_ = r.server.Close()
			case "wire":
				_ = server.Close()
			}
			wantCut(t, end, res.Body)
		}
	})
}
