// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/offline"
)

// door is a server and an HTTP/2 client for it.
type door struct {
	*running

	url  string
	asks *http.Client
}

// doors runs a test case with and without TLS.
func doors(t *testing.T, run func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door)) {
	t.Helper()
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", encrypted), func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T, cfg serve.Config, handler http.Handler) *door {
				t.Helper()
				return openDoor(t, cfg, encrypted, handler)
			})
		})
	}
}

func openDoor(t *testing.T, cfg serve.Config, encrypted bool, handler http.Handler) *door {
	t.Helper()
	transport := offline.Transport()
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(!encrypted)
	transport.Protocols.SetHTTP2(encrypted)
	d := &door{asks: &http.Client{Transport: transport}}
	scheme := "http"
	if encrypted {
		certFile, keyFile, roots := certificate(t, t.TempDir())
		cfg.TLSCertFile, cfg.TLSKeyFile, scheme = certFile, keyFile, "https"
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "leat.test", MinVersion: tls.VersionTLS12}
	}
	d.running = start(t, cfg, handler)
	t.Cleanup(transport.CloseIdleConnections)
	d.url = scheme + "://" + d.addr
	return d
}

// TestHTTP2Requests checks what handlers are told of a request and its connection.
func TestHTTP2Requests(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		d := open(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			_, served := r.Context().Value(http.ServerContextKey).(*http.Server)
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			_, _ = fmt.Fprint(w, r.Proto, " ", r.TLS != nil && r.TLS.HandshakeComplete, " ", local, " ", served, " ", host, " ",
				serve.Draining(r.Context()) != nil)
		}))
		status, got := get(t, d.asks, d.url)
		want := fmt.Sprint("HTTP/2.0 ", strings.HasPrefix(d.url, "https"), " ", d.addr, " true 127.0.0.1 true")
		if status != http.StatusOK || got != want {
			t.Errorf("got %d %q, want %q", status, got, want)
		}
	})
}

// TestHTTP2FramesAreBounded checks the settings that a peer is sent.
func TestHTTP2FramesAreBounded(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]uint32{0: 64 << 10, 16 << 10: 16 << 10} {
		conn := dial(t, start(t, serve.Config{ReadFrame: given}, http.HandlerFunc(protocol)).addr)
		write(t, conn, http2.ClientPreface)
		framer := http2.NewFramer(conn, conn)
		if err := framer.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok {
			t.Fatalf("got %v, want settings", frame)
		}
		if got, _ := settings.Value(http2.SettingMaxFrameSize); got != want {
			t.Errorf("got frames of %d bytes, want %d", got, want)
		}
	}
}

// TestHTTP2Drain has requests under way finish when the server stops, and no connection stay.
func TestHTTP2Drain(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		begun := make(chan struct{})
		d := open(t, serve.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				close(begun)
				<-serve.Draining(r.Context())
			}
			_, _ = io.WriteString(w, "whole")
		}))
		_, _ = get(t, d.asks, d.url+"/short")
		answer := make(chan string, 1)
		go func() {
			_, text := get(t, d.asks, d.url+"/long")
			answer <- text
		}()
		<-begun
		d.stop()
		if got := <-answer; got != "whole" {
			t.Errorf("got %q, want the whole answer", got)
		}
		if err := d.wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if log := d.log.String(); !strings.Contains(log, "msg=drained") {
			t.Errorf("the drain has not ended by itself:\n%s", log)
		}
	})
}

// TestHTTP2DrainEndsLateHandshakes has a connection become one of HTTP/2 after the drain has begun.
func TestHTTP2DrainEndsLateHandshakes(t *testing.T) {
	t.Parallel()
	server := start(t, serve.Config{}, http.HandlerFunc(protocol))
	late, early := dial(t, server.addr), dial(t, server.addr)
	write(t, late, http2.ClientPreface[:10])
	begin := func(conn net.Conn, rest string) *http2.Framer {
		t.Helper()
		write(t, conn, rest)
		framer := http2.NewFramer(conn, conn)
		if err := framer.WriteSettings(); err != nil {
			t.Fatalf("write settings: %v", err)
		}
		return framer
	}
	goneAway := func(name string, framer *http2.Framer) {
		t.Helper()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("%s connection: got %v, want a GOAWAY", name, err)
			}
			if _, ok := frame.(*http2.GoAwayFrame); ok {
				return
			}
		}
	}
	framer := begin(early, http2.ClientPreface)
	if _, err := framer.ReadFrame(); err != nil { // the server has accepted both connections
		t.Fatalf("early connection: %v", err)
	}
	server.stop()
	goneAway("early", framer)
	_ = early.Close()
	goneAway("late", begin(late, http2.ClientPreface[10:]))
	if err := server.wait(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if log := server.log.String(); !strings.Contains(log, "msg=drained") {
		t.Errorf("the drain has not ended by itself:\n%s", log)
	}
}

// dial opens a connection whose reads and writes fail after await.Patience.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatalf("set deadline: %v", err)
	}
	return conn
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// TestHTTP2DrainHasItsLimit has requests cut that last too long.
func TestHTTP2DrainHasItsLimit(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		begun, ended, release := make(chan struct{}), make(chan error, 1), make(chan struct{})
		defer close(release)
		d := open(t, serve.Config{DrainTimeout: 100 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
			<-release // returning sends the answer
		}))
		failed := make(chan error, 1)
		go func() {
			request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, d.url, nil)
			if err == nil {
				var response *http.Response
				if response, err = d.asks.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
			failed <- err
		}()
		<-begun
		d.stop()
		if err := d.wait(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := <-ended; err == nil {
			t.Error("the handler's request goes on")
		}
		if err := <-failed; err == nil {
			t.Error("the client has got an answer")
		}
	})
}

// TestHTTP2Panics has a handler's panic end its request alone, and the log tell of it.
func TestHTTP2Panics(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		d := open(t, serve.Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("an example")
			}
		}))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/panic", nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := d.asks.Do(request); err == nil {
			t.Errorf("got %s, want no answer", response.Status)
			_ = response.Body.Close()
		}
		if status, _ := get(t, d.asks, d.url); status != http.StatusOK {
			t.Errorf("afterwards: got %d", status)
		}
		d.log.await(t, "handler panicked", "an example") // which may be said after the client has heard
	})
}

// TestHTTP2LargeHeaders has requests refused whose header is too large, and those taken whose is
// not.
func TestHTTP2LargeHeaders(t *testing.T) {
	doors(t, func(t *testing.T, open func(t *testing.T, cfg serve.Config, handler http.Handler) *door) {
		d := open(t, serve.Config{}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for size, want := range map[int]int{32 << 10: http.StatusOK, 100 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-Large", strings.Repeat("x", size))
			response, err := d.asks.Do(request)
			if err != nil {
				if want != http.StatusOK { // a client that has heard of the limit does not even ask
					continue
				}
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%d bytes: got %s, want %d", size, response.Status, want)
			}
		}
	})
}
