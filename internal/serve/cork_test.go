// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/serve"
)

// recorder is a connection that keeps each write.
type recorder struct {
	net.Conn

	mu     sync.Mutex
	writes []string
	fails  error
	limit  time.Time // the deadline that was set last
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return 0, r.fails
	}
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func (r *recorder) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = t
	return nil
}

func (r *recorder) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.writes, "|")
}

// corked returns a connection over r, and a function that says that a head comes next.
func corked(t *testing.T, r *recorder) (conn *serve.CorkedConn, head func()) {
	t.Helper()
	conn = serve.NewCorkedConn(r)
	request := (&http.Request{Method: http.MethodGet, ProtoMajor: 2}).WithContext(serve.WithCork(t.Context(), conn))
	return conn, func() { serve.CorkHead(request, http.StatusOK, http.Header{"Content-Length": {"4"}}) }
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if n, err := conn.Write([]byte(text)); n != len(text) || err != nil {
		t.Errorf("write %.10q: got %d, %v, want %d", text, n, err, len(text))
	}
}

func TestHeadWaitsForTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		conn, head := corked(t, r)
		write(t, conn, "settings")
		for range 2 {
			head()
			write(t, conn, "head")
			write(t, conn, "body")
		}
		write(t, conn, "ping")
		if got, want := r.got(), "settings|headbody|headbody|ping"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(time.Minute)
		if got, want := r.got(), "settings|headbody|headbody|ping"; got != want {
			t.Errorf("a minute later: got %s, want %s", got, want)
		}
	})
}

func TestHeadWithoutABodyGoesSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		conn, head := corked(t, r)
		for i := range 3 {
			head()
			write(t, conn, "head")
			if got := r.got(); strings.Count(got, "head") != i {
				t.Errorf("got %q before the time is over, want %d heads", got, i)
			}
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if got := r.got(); strings.Count(got, "head") != i+1 {
				t.Errorf("got %q after it, want %d heads", got, i+1)
			}
			if !r.limit.IsZero() {
				t.Errorf("a deadline is left: %v", r.limit)
			}
		}
	})
}

func TestLargeBodyIsNotCopied(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	conn, head := corked(t, r)
	large := strings.Repeat("x", 64<<10)
	head()
	write(t, conn, "head")
	write(t, conn, large)
	head()
	write(t, conn, large)
	if got, want := r.got(), "head|"+large+"|"+large; got != want {
		t.Errorf("got %d bytes in %d writes, want three", len(got), len(r.writes))
	}
}

func TestFailureOfWhatWaitedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fails: errors.New("broken pipe")}
		conn, head := corked(t, r)
		head()
		write(t, conn, "head")
		if n, err := conn.Write([]byte("body")); n != 0 || err == nil {
			t.Errorf("with the body: got %d, %v, want an error", n, err)
		}
		head()
		write(t, conn, "head")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if n, err := conn.Write([]byte("body")); n != 0 || err == nil {
			t.Errorf("after the time was over: got %d, %v, want an error", n, err)
		}
	})
}

func TestHeadsThatDoNotWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		proto, status int
		method        string
		length        string
	}{
		"HTTP/1.1":       {1, 200, http.MethodGet, "4"},
		"HEAD":           {2, 200, http.MethodHead, "4"},
		"empty":          {2, 200, http.MethodGet, "0"},
		"unknown length": {2, 200, http.MethodGet, ""},
		"not modified":   {2, 304, http.MethodGet, "4"},
		"informational":  {2, 103, http.MethodGet, "4"},
	} {
		r := &recorder{}
		conn := serve.NewCorkedConn(r)
		request := (&http.Request{Method: c.method, ProtoMajor: c.proto}).WithContext(serve.WithCork(t.Context(), conn))
		header := http.Header{}
		if c.length != "" {
			header.Set("Content-Length", c.length)
		}
		serve.CorkHead(request, c.status, header)
		write(t, conn, "head")
		if r.got() != "head" {
			t.Errorf("%s: the head waits", name)
		}
	}
}

// TestAnswersAreWhole asks a server over HTTP/2 and counts what it writes for small answers.
func TestAnswersAreWhole(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	stay := make(chan struct{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, ConnContext: serve.WithCork, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bytes.Repeat([]byte("x"), 1<<10)
		if r.URL.Path == "/slow" {
			body = body[:10]
		}
		w.Header().Set("Content-Length", map[bool]string{true: "10", false: "1024"}[r.URL.Path == "/slow"])
		serve.CorkHead(r, http.StatusOK, w.Header())
		w.WriteHeader(http.StatusOK)
		if r.URL.Path == "/slow" {
			_ = http.NewResponseController(w).Flush()
			<-stay
		}
		_, _ = w.Write(body)
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(counting{listener, &writes}) }()
	t.Cleanup(func() { _ = server.Close() })
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	ask := func(path string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	read := func(res *http.Response, want int) {
		t.Helper()
		if got, err := io.ReadAll(res.Body); len(got) != want || err != nil {
			t.Errorf("got %d bytes, %v, want %d", len(got), err, want)
		}
	}
	read(ask("/"), 1024)
	const answers = 100
	before := writes.Load()
	for range answers {
		read(ask("/"), 1024)
	}
	if got := writes.Load() - before; got > answers*3/2 { // the timer may come in between, and HTTP/2 has other things to say
		t.Errorf("%d answers took %d writes, want about one each", answers, got)
	}
	res := ask("/slow") // comes although its body does not
	close(stay)
	read(res, 10)
}

// counting is a listener whose connections are corked and count what they write.
type counting struct {
	net.Listener

	writes *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return serve.NewCorkedConn(&counted{conn, l.writes}), nil
}

type counted struct {
	net.Conn

	writes *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}
