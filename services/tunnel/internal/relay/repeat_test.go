// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// lossy loses what it is sent, after it has read some of it, or has had it written.
type lossy struct {
	tb      testing.TB
	reads   int
	written bool
	err     error
	lost    int
}

var errEnough = errors.New("enough")

// enough takes so many bytes.
type enough struct{ left int }

// Write implements io.Writer.
func (e *enough) Write(p []byte) (int, error) {
	n := min(len(p), e.left)
	if e.left -= n; e.left == 0 {
		return n, errEnough
	}
	return n, nil
}

// take takes so many bytes of a body.
func (l *lossy) take(body io.Reader, bytes int) {
	if !l.written || bytes == 0 {
		_, _ = io.ReadFull(body, make([]byte, bytes))
		return
	}
	_, err := writerOf(l.tb, body).WriteTo(&enough{bytes})
	if !errors.Is(err, errEnough) {
		l.tb.Errorf("written: got %v, want its writer's error", err)
	}
}

// writerOf returns a body that has to write itself.
func writerOf(tb testing.TB, body io.Reader) io.WriterTo {
	tb.Helper()
	writer, ok := body.(io.WriterTo)
	if !ok {
		tb.Fatalf("a body of %T does not write itself", body)
	}
	return writer
}

// all takes a body to its end.
func (l *lossy) all(body io.Reader) string {
	var all strings.Builder
	if l.written {
		_, _ = writerOf(l.tb, body).WriteTo(&all)
	} else {
		_, _ = io.Copy(&all, struct{ io.Reader }{body})
	}
	return all.String()
}

func (l *lossy) RoundTrip(req *http.Request, route relay.Route, target relay.Target) (*http.Response, error) {
	if l.lost == 0 {
		l.lost++
		if req.Body != nil {
			l.take(req.Body, l.reads)
		}
		return nil, l.err
	}
	if req.Body != nil {
		return answer(l.all(req.Body)), nil
	}
	return answer("again"), nil
}

// counted is a text in which no two places are alike.
func counted(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()[:size]
}

// TestRepeatedRequestsAreWhole repeats requests that are safe to repeat, from its first byte.
func TestRepeatedRequestsAreWhole(t *testing.T) {
	long := counted(100_000)
	for name, tc := range map[string]struct {
		method, body string
		reads        int
		err          error
		want         string // empty: it is not repeated
	}{
		"read that was lost":                 {http.MethodGet, "", 0, session.ErrLost, "again"},
		"change that was lost":               {http.MethodPost, "body", 0, session.ErrLost, ""},
		"change that did not arrive":         {http.MethodPost, "body", 3, relay.ErrNotHere, "body"},
		"change that was not sent":           {http.MethodPost, "body", 0, relay.ErrUnreachable, "body"},
		"long change that was not sent":      {http.MethodPost, long, 0, relay.ErrUnreachable, long},
		"long change that was read too far":  {http.MethodPost, long, 90_000, relay.ErrNotHere, ""},
		"change for an agent that is full":   {http.MethodPost, "body", 0, session.ErrFull, "body"},
		"change that the agent broke off":    {http.MethodPost, "body", 0, errors.New("broken off"), ""},
		"read that the agent has broken off": {http.MethodGet, "", 0, errors.New("broken off"), ""},
	} {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written %t", name, written), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var body io.Reader
					if tc.body != "" {
						body = strings.NewReader(tc.body)
					}
					res, err := elsewhere(t, tc.method, body, &lossy{tb: t, reads: tc.reads, written: written, err: tc.err})
					if err == nil {
						defer func() { _ = res.Body.Close() }()
					}
					if got := err == nil; got != (tc.want != "") || got && res.Header.Get("From") != tc.want {
						t.Errorf("got %v, want %d bytes repeated", err, len(tc.want))
					}
					if err != nil && !errors.Is(err, tc.err) {
						t.Errorf("got %v, want %v", err, tc.err)
					}
				})
			})
		}
	}
}

// source is a body that knows how much of it was read and how much it has written itself. Without
// an end, it continues until it is closed.
type source struct {
	io.Reader

	endless       bool
	read, written int
	writing       chan struct{} // closed when an endless source has written everything else
	closed        chan struct{}
}

func newSource(content string, endless bool) *source {
	return &source{Reader: strings.NewReader(content), endless: endless, writing: make(chan struct{}), closed: make(chan struct{})}
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += n
	return n, err
}

// WriteTo implements io.WriterTo.
func (s *source) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, s.Reader)
	s.written += int(n)
	if err == nil && s.endless {
		close(s.writing)
		<-s.closed
		err = io.ErrClosedPipe
	}
	return n, err
}

// Close implements io.Closer.
func (s *source) Close() error {
	close(s.closed)
	return nil
}

// peer is another replica.
type peer func(req *http.Request) (*http.Response, error)

// RoundTrip implements [relay.Peers].
func (p peer) RoundTrip(req *http.Request, _ relay.Route, _ relay.Target) (*http.Response, error) {
	return p(req)
}

// elsewhere sends a request to an agent that is connected to two other replicas.
func elsewhere(t *testing.T, method string, body io.Reader, peers relay.Peers) (*http.Response, error) {
	t.Helper()
	f := newFleet()
	b, c := f.start(t, "b"), f.start(t, "c")
	time.Sleep(time.Second)
	b.connect(t, "demo", "b")
	c.connect(t, "demo", "c")
	time.Sleep(time.Second)
	router := relay.New(relay.Params{
		Table: session.NewTable(session.DefaultLimits()), Self: relay.Replica{ID: "a"}, Store: f.store, Peers: peers,
		Logger: slog.New(slog.DiscardHandler),
	})
	stream, err := router.Open(t.Context(), relay.Target{Target: session.Target{Cluster: "demo"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Release()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://kubernetes/", body)
	if err != nil {
		t.Fatal(err)
	}
	return stream.RoundTrip(req)
}

// TestLongBodyWritesItself has a body write itself where it is too long to be kept for another
// attempt.
func TestLongBodyWritesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := counted(1 << 20)
		body := newSource(long, false)
		res, err := elsewhere(t, http.MethodPost, body, peer(func(req *http.Request) (*http.Response, error) {
			var got strings.Builder
			n, err := writerOf(t, req.Body).WriteTo(&got)
			if err != nil || n != int64(len(long)) || got.String() != long {
				t.Errorf("got %d bytes, %v, want all", n, err)
			}
			if n, err := req.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("behind the end: got %d bytes, %v", n, err)
			}
			return answer("b"), nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if body.read > 100<<10 || body.read+body.written != len(long) {
			t.Errorf("%d bytes were read, and %d written by the body, want most of them written", body.read, body.written)
		}
	})
}

// TestLongBodyIsClosedWhileItWritesItself ends an upload that waits for its caller.
func TestLongBodyIsClosedWhileItWritesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := newSource(counted(200<<10), true)
		res, err := elsewhere(t, http.MethodPost, body, peer(func(req *http.Request) (*http.Response, error) {
			written := make(chan error)
			go func() {
				_, err := writerOf(t, req.Body).WriteTo(io.Discard)
				written <- err
			}()
			<-body.writing
			_ = req.Body.Close()
			return nil, <-written
		}))
		if err == nil {
			_ = res.Body.Close()
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want the body's own error", err)
		}
	})
}
