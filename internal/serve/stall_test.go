// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// stream writes blocks until a write fails, and tells when that was.
type stream struct {
	ended chan time.Duration
	ctx   chan error
}

func newStream() *stream {
	return &stream{ended: make(chan time.Duration, 1), ctx: make(chan error, 1)}
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	block := bytes.Repeat([]byte("leat"), 1<<18)
	for {
		if _, err := w.Write(block); err != nil {
			break
		}
		w.(http.Flusher).Flush()
	}
	s.ended <- time.Since(began)
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
		s := newStream()
		server := rpctest.Start(serve.CutStalled(s))
		defer closing(t, server)
		res := request(t, server)
		defer closing(t, res.Body)
		if took := <-s.ended; took != 30*time.Second {
			t.Errorf("got the write's error after %v, want 30 s", took)
		}
		if err := <-s.ctx; err == nil {
			t.Error("got a context that goes on, want its end")
		}
		// What was in flight is still read; then the reset is seen.
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Error("got a whole response, want an error where it was cut")
		}
	})
}

// TestStalledConnectionIsCut does the same with HTTP/1.1.
func TestStalledConnectionIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream()
		server := rpctest.Start(serve.CutStalled(s))
		defer closing(t, server)
		conn, err := server.Transport().DialContext(t.Context(), "tcp", "leat.test:80")
		if err != nil {
			t.Fatal(err)
		}
		defer closing(t, conn)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: leat.test\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if took := <-s.ended; took != 30*time.Second {
			t.Errorf("got the write's error after %v, want 30 s", took)
		}
	})
}

// TestSlowReaderIsNotCut has one that takes a little every 20 s, and a handler that is silent for minutes.
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
		})))
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
