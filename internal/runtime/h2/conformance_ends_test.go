// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestConformanceHandlersThatGiveUp never have their answer look complete.
func TestConformanceHandlersThatGiveUp(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/alive":
				return
			case "/before", "/before-upload":
			case "/written": // less than what the server buffers
				_, _ = io.WriteString(w, "hello")
			case "/head":
				_ = http.NewResponseController(w).Flush()
			case "/announced":
				w.Header().Set("Content-Length", "1000000")
				_, _ = w.Write(make([]byte, 500_000))
			case "/body", "/other":
				_, _ = w.Write(make([]byte, 500_000))
			}
			if r.URL.Path == "/other" {
				panic(errors.New("any other value")) // the process survives it
			}
			panic(http.ErrAbortHandler)
		}, options{})
		for _, path := range []string{"/before", "/before-upload", "/written", "/head", "/announced", "/body", "/other"} {
			for range 5 {
				req := r.request(t, http.MethodGet, path, nil)
				if path == "/before-upload" {
					req = r.request(t, http.MethodPost, path, newReader(noEnd))
				}
				res, err := r.client.RoundTrip(req)
				if err == nil {
					if strings.HasPrefix(path, "/before") {
						t.Errorf("%s: got %s, want an error", path, res.Status)
					}
					wantCut(t, path, res.Body)
					_ = res.Body.Close()
				}
			}
			r.alive(t)
		}
	})
}

// handled is a handler's view of its request's end.
type handled struct {
	read, write error
	cause       error // of the context
}

// deadline is a context whose deadline passes when the test wants it. A deadline by the clock may
// pass before a busy machine has brought the request to its handler, which then never begins.
type deadline struct {
	context.Context
	passed chan struct{}
}

// expiring returns a context, and what makes its deadline pass.
func expiring(parent context.Context) (context.Context, context.CancelFunc) {
	d := deadline{Context: parent, passed: make(chan struct{})}
	return d, sync.OnceFunc(func() { close(d.passed) })
}

// Done implements context.Context.
func (d deadline) Done() <-chan struct{} { return d.passed }

// Err implements context.Context.
func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestConformanceClientsThatGiveUp end what their requests have begun.
func TestConformanceClientsThatGiveUp(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		begun := make(chan struct{}, 1)
		ended := make(chan handled, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/alive" {
				return
			}
			var h handled
			if r.URL.Path == "/body" {
				_, _ = io.WriteString(w, "begun")
				_ = http.NewResponseController(w).Flush()
			}
			begun <- struct{}{}
			if r.Method == http.MethodPost {
				_, h.read = io.Copy(io.Discard, r.Body)
			}
			<-r.Context().Done()
			h.cause = r.Context().Err()
			_, h.write = w.Write(make([]byte, 100_000))
			ended <- h
		}, options{})
		for _, path := range []string{"/head", "/body"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				for _, late := range []bool{false, true} {
					what := fmt.Sprint(method, " ", path, " by deadline: ", late)
					req := r.request(t, method, path, nil)
					ctx, giveUp := context.WithCancel(req.Context())
					expected := context.Canceled
					if late {
						ctx, giveUp = expiring(req.Context())
						expected = context.DeadlineExceeded
					}
					body := newReader(noEnd)
					if method == http.MethodPost {
						req.Body = body
						req.ContentLength = -1
					}
					go func() {
						<-begun
						if path == "/head" {
							giveUp()
						}
					}()
					res, err := r.client.RoundTrip(req.WithContext(ctx))
					if err == nil {
						if path == "/head" {
							t.Errorf("%s: got %s, want an error", what, res.Status)
						}
						start := make([]byte, 5)
						_, _ = io.ReadFull(res.Body, start)
						giveUp()
						_, err = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
					if !errors.Is(err, expected) {
						t.Errorf("%s: got %v, want %v", what, err, expected)
					}
					h := receive(t, what, ended)
					if h.cause == nil || h.write == nil || method == http.MethodPost && (h.read == nil || errors.Is(h.read, io.EOF)) {
						t.Errorf("%s: the handler has seen %+v, want an error of each", what, h)
					}
					if method == http.MethodPost {
						_ = receive(t, what+": upload's end", body.closed)
					}
					giveUp()
					r.alive(t)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if res, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/early", nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: got %v, %v, want %v", res, err, context.Canceled)
		}
	})
}

// TestConformanceCancelledBehindTheEnd has a reader who is given up when all has come get the rest,
// or be told why not.
func TestConformanceCancelledBehindTheEnd(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		const size = 100_000
		r := p.connect(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }, options{})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			res := r.do(t, r.request(t, http.MethodGet, "/", nil).WithContext(ctx))
			first, err := io.CopyN(io.Discard, res.Body, 10)
			if err != nil {
				t.Fatal(err)
			}
			r.alive(t)
			cancel()
			r.alive(t) // it has been noticed
			rest, err := io.Copy(io.Discard, res.Body)
			if !errors.Is(err, context.Canceled) && (err != nil || first+rest != size) {
				t.Errorf("got %d bytes, %v, want all of them, or %v", first+rest, err, context.Canceled)
			}
		}
	})
}

// TestConformanceCancelledWhileNothingIsRead ends requests whose windows are used up.
func TestConformanceCancelledWhileNothingIsRead(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		ended := make(chan error, 2)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/down":
				_, err := io.Copy(w, newReader(noEnd))
				ended <- err
			case "/up":
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
			}
		}, options{})
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			_ = r.do(t, r.request(t, http.MethodGet, "/down", nil).WithContext(ctx))
			sent := make(chan struct{}, 1)
			total := 0
			_ = r.do(t, r.request(t, http.MethodPost, "/up", newReader(func(p []byte) (int, error) {
				if total += len(p); total >= 256<<10 && total-len(p) < 256<<10 {
					sent <- struct{}{}
				}
				return noEnd(p)
			})).WithContext(ctx))
			<-sent
			cancel()
			for range 2 {
				if err := receive(t, "handler", ended); err == nil {
					t.Error("the handler has seen the body's end, want an error")
				}
			}
			r.alive(t)
		}
	})
}

// TestConformanceCloseWhileReading ends the reading.
func TestConformanceCloseWhileReading(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			if r.URL.Path != "/alive" {
				<-r.Context().Done()
			}
		}, options{})
		for range 20 {
			res := r.get(t, "/", http.StatusOK)
			read := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, res.Body)
				read <- err
			}()
			_ = res.Body.Close()
			if err := receive(t, "read", read); err == nil {
				t.Error("the body has ended well, want an error")
			}
		}
		r.alive(t)
	})
}

// TestConformanceDeadlinesThatHavePassed end a request at once: that is how a proxy cuts an answer
// off.
func TestConformanceDeadlinesThatHavePassed(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		ended := make(chan handled, 1)
		r := p.connect(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			past := time.Now().Add(-time.Second)
			var h handled
			switch r.URL.Path {
			case "/alive":
				return
			case "/read":
				_, _ = io.ReadFull(r.Body, make([]byte, 5))
				want(t, "set read deadline", control.SetReadDeadline(past), nil)
				_, h.read = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "still there")
			case "/write":
				_, _ = io.WriteString(w, "begun")
				_ = control.Flush()
				want(t, "set write deadline", control.SetWriteDeadline(past), nil)
				_, h.write = io.Copy(w, newReader(noEnd))
			case "/write-blocked": // from another goroutine, while the windows are used up
				_ = control.Flush()
				blocked := make(chan struct{}, 1)
				total := 0
				go func() {
					<-blocked
					_ = control.SetWriteDeadline(past)
				}()
				_, h.write = io.Copy(w, newReader(func(p []byte) (int, error) {
					if total += len(p); total >= 256<<10 && total-len(p) < 256<<10 {
						blocked <- struct{}{}
					}
					return noEnd(p)
				}))
			}
			ended <- h
		}, options{})
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, "hello") }()
		res := r.do(t, r.request(t, http.MethodPost, "/read", in))
		if h := receive(t, "read", ended); !errors.Is(h.read, os.ErrDeadlineExceeded) {
			t.Errorf("read: got %v, want %v", h.read, os.ErrDeadlineExceeded)
		}
		want(t, "answer behind the read deadline", text(t, res.Body), "still there")
		r.alive(t)
		for _, path := range []string{"/write", "/write-blocked"} {
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, path, nil))
			if h := receive(t, path, ended); h.write == nil {
				t.Errorf("%s: got no error", path)
			}
			if err == nil {
				wantCut(t, path, res.Body)
				_ = res.Body.Close()
			}
			r.alive(t)
		}
	})
}

// TestConformanceDeadlinesToCome end a request when it is time, and not when they were moved.
func TestConformanceDeadlinesToCome(t *testing.T) {
	conform(t, func(t *testing.T, p pairing) {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan handled, 1)
			r := p.connectInMemory(t, func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				soon := time.Now().Add(time.Second)
				var h handled
				switch r.URL.Path {
				case "/read":
					want(t, "set read deadline", control.SetReadDeadline(soon), nil)
					_, h.read = io.Copy(io.Discard, r.Body)
				case "/write":
					want(t, "set write deadline", control.SetWriteDeadline(soon), nil)
					_, h.write = io.Copy(w, newReader(noEnd))
				case "/moved":
					want(t, "set write deadline", control.SetWriteDeadline(soon), nil)
					want(t, "set read deadline", control.SetReadDeadline(soon), nil)
					_ = control.Flush()
					time.Sleep(time.Second / 2)
					want(t, "move write deadline", control.SetWriteDeadline(time.Now().Add(2*time.Second)), nil)
					want(t, "drop read deadline", control.SetReadDeadline(time.Time{}), nil)
					time.Sleep(time.Second)
					_, h.write = io.WriteString(w, "still there")
					_, h.read = io.Copy(io.Discard, r.Body)
				}
				ended <- h
			}, options{})
			began := time.Now()
			in, out := io.Pipe()
			res := r.do(t, r.request(t, http.MethodPost, "/read", in))
			if h := receive(t, "read", ended); !errors.Is(h.read, os.ErrDeadlineExceeded) {
				t.Errorf("read: got %v, want %v", h.read, os.ErrDeadlineExceeded)
			}
			want(t, "read: time", time.Since(began), time.Second)
			_ = res.Body.Close()
			_ = out.Close()

			began = time.Now()
			res, err := r.client.RoundTrip(r.request(t, http.MethodGet, "/write", nil))
			if h := receive(t, "write", ended); h.write == nil {
				t.Error("write: got no error")
			}
			want(t, "write: time", time.Since(began), time.Second)
			if err == nil {
				wantCut(t, "write", res.Body)
				_ = res.Body.Close()
			}

			in, out = io.Pipe()
			res = r.do(t, r.request(t, http.MethodPost, "/moved", in))
			go func() {
				time.Sleep(3 * time.Second / 2)
				_ = out.Close()
			}()
			want(t, "moved", text(t, res.Body), "still there")
			want(t, "moved", receive(t, "moved", ended), handled{})
		})
	})
}
