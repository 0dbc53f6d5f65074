// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

const stallTimeout = 30 * time.Second

// stream writes blocks until a write fails, and returns when that was.
type stream struct {
	ended chan time.Time
	ctx   chan error
}

func newStream() *stream {
	return &stream{ended: make(chan time.Time, 1), ctx: make(chan error, 1)}
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	block := bytes.Repeat([]byte("leat"), 1<<18)
	for {
		if _, err := w.Write(block); err != nil {
			break
		}
		w.(http.Flusher).Flush()
	}
	s.ended <- time.Now()
	// Over HTTP/1.1 the context ends with the connection, which is when the handler returns.
	if r.ProtoMajor == 2 {
		<-r.Context().Done()
		s.ctx <- context.Cause(r.Context())
	}
}

func request(t *testing.T, server *rpctest.Server) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rpctest.BaseURL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// ask sends a request over HTTP/1.1 and returns the connection, from which nothing was read.
func ask(t *testing.T, server *rpctest.Server) net.Conn {
	t.Helper()
	conn, err := server.Transport().DialContext(t.Context(), "tcp", "leat.test:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: leat.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestStalledStreamIsCut has a client that lives, and does not read.
func TestStalledStreamIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := newStream(), time.Now()
		server := rpctest.Start(serve.CutStalled(s, stallTimeout))
		defer closing(t, server)
		res := request(t, server)
		defer closing(t, res.Body)
		if took := (<-s.ended).Sub(began); took != stallTimeout {
			t.Errorf("got the write's error after %v, want %v", took, stallTimeout)
		}
		if err := <-s.ctx; err == nil {
			t.Error("got a context that goes on, want its end")
		}
		// The peer still reads the bytes in flight; then the reset is seen.
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Error("got a whole response, want an error where it was cut")
		}
	})
}

// TestStalledConnectionIsCut does the same with HTTP/1.1.
func TestStalledConnectionIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began := newStream(), time.Now()
		server := rpctest.Start(serve.CutStalled(s, stallTimeout))
		defer closing(t, server)
		defer closing(t, ask(t, server))
		if took := (<-s.ended).Sub(began); took != stallTimeout {
			t.Errorf("got the write's error after %v, want %v", took, stallTimeout)
		}
	})
}

// TestSlowReaderIsNotCut has one that takes a little every 20 s, and a handler that is silent for
// minutes.
func TestSlowReaderIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20 // more than all the buffers on the way
		server := rpctest.Start(serve.CutStalled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write(make([]byte, size)); err != nil {
				t.Errorf("first write: %v", err)
			}
			<-time.After(10 * time.Minute)
			if _, err := w.Write(make([]byte, size)); err != nil {
				t.Errorf("second write: %v", err)
			}
		}), stallTimeout))
		defer closing(t, server)
		res := request(t, server)
		defer closing(t, res.Body)
		total := 0
		for block := make([]byte, 256<<10); ; {
			n, err := io.ReadFull(res.Body, block)
			total += n
			if err != nil {
				break
			}
			<-time.After(20 * time.Second)
		}
		if total != 2*size {
			t.Errorf("got %d bytes, want %d", total, 2*size)
		}
	})
}

// guarded is a handler under a guard. It reports when its first write failed, how often it was told
// of that, and whether it was told first; then it writes once more.
func guarded(ended chan<- time.Duration, told chan<- int, again chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began, calls := time.Now(), 0
		guard := serve.GuardStalls(w, stallTimeout, func() { calls++ })
		defer guard.Stop()
		_, _ = guard.Write(make([]byte, 8<<20))
		ended <- time.Since(began)
		told <- calls
		_, err := guard.Write(make([]byte, 8<<20))
		again <- err
		told <- calls
	})
}

// TestGuardTells holds the guard to its contract with who made it.
func TestGuardTells(t *testing.T) {
	t.Parallel()
	for protocol, open := range map[string]func(*testing.T, *rpctest.Server) io.Closer{
		"HTTP/1.1": func(t *testing.T, server *rpctest.Server) io.Closer { t.Helper(); return ask(t, server) },
		"HTTP/2":   func(t *testing.T, server *rpctest.Server) io.Closer { t.Helper(); return request(t, server).Body },
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended, told, again := make(chan time.Duration, 1), make(chan int, 2), make(chan error, 1)
				server := rpctest.Start(guarded(ended, told, again))
				defer closing(t, server)
				defer closing(t, open(t, server))
				if took := <-ended; took != stallTimeout {
					t.Errorf("got the write's error after %v, want %v", took, stallTimeout)
				}
				if calls := <-told; calls != 1 {
					t.Errorf("was told %d times when the write failed, want once", calls)
				}
				if err := <-again; err == nil {
					t.Error("a later write succeeded, want it to fail")
				}
				if calls := <-told; calls != 1 {
					t.Errorf("was told %d times in the end, want once", calls)
				}
			})
		})
	}
}

// TestSmallWritesThatStallAreCut has answers that are written in pieces which a server would
// buffer.
func TestSmallWritesThatStallAreCut(t *testing.T) {
	t.Parallel()
	for name, flush := range map[string]bool{"events": true, "pieces": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Time, 1)
				server := rpctest.Start(serve.CutStalled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for err := error(nil); err == nil; {
						if _, err = w.Write(make([]byte, 1000)); flush {
							err = cmp.Or(err, http.NewResponseController(w).Flush())
						}
					}
					ended <- time.Now()
				}), stallTimeout))
				defer closing(t, server)
				began := time.Now()
				for _, open := range []func(){
					func() { defer closing(t, ask(t, server)); <-ended },
					func() { defer closing(t, request(t, server).Body); <-ended },
				} {
					open()
					if took := time.Since(began); took != stallTimeout {
						t.Errorf("got the write's error after %v, want %v", took, stallTimeout)
					}
					began = time.Now()
				}
			})
		})
	}
}

// TestStalledTailIsCut has a peer who takes all but the last bytes, which the server writes when
// the handler has returned.
func TestStalledTailIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 128<<10 + 100
		returned := make(chan struct{}, 1)
		server := rpctest.Start(serve.CutStalled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			_, _ = w.Write(make([]byte, size-100))
			_, _ = w.Write(make([]byte, 100))
			returned <- struct{}{}
		}), stallTimeout))
		defer closing(t, server)
		conn := ask(t, server)
		defer closing(t, conn)
		reader := bufio.NewReaderSize(conn, 16)
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = reader.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.CopyN(io.Discard, reader, size-100); err != nil {
			t.Fatal(err)
		}
		<-returned
		<-time.After(stallTimeout + time.Second)
		if rest, err := io.ReadAll(reader); err != nil || len(rest) >= 100 {
			t.Errorf("got %d bytes of the rest, %v, want the connection closed without them", len(rest), err)
		}
	})
}

// TestNextResponseIsNotCut uses a connection again when the time of the response before has passed.
func TestNextResponseIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rpctest.Start(serve.CutStalled(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
		}), stallTimeout))
		defer closing(t, server)
		transport := &http.Transport{DialContext: server.Transport().DialContext}
		defer transport.CloseIdleConnections()
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rpctest.BaseURL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, res.Body); err != nil || n != 1<<20 {
				t.Errorf("got %d bytes, %v, want them all", n, err)
			}
			closing(t, res.Body)
			<-time.After(2 * stallTimeout)
		}
	})
}
