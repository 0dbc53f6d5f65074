// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// fakeConn is a connection whose behaviour a test sets.
type fakeConn struct {
	mu       sync.Mutex
	status   session.Status
	closed   bool
	shutdown func(context.Context) error
	send     func(*http.Request) (*http.Response, error)
	leave    func(after time.Duration) error
	done     chan struct{}
}

func (c *fakeConn) Leave(_ context.Context, after time.Duration) error {
	if c.leave != nil {
		return c.leave(after)
	}
	return nil
}

func (c *fakeConn) Done() <-chan struct{} { return c.done }

func (c *fakeConn) RoundTrip(req *http.Request) (*http.Response, error) { return c.send(req) }

func (c *fakeConn) Status() session.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *fakeConn) set(status session.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (*fakeConn) LastSeen() time.Time { return time.Unix(1, 0) }

func (c *fakeConn) Shutdown(ctx context.Context) error {
	if c.shutdown != nil {
		return c.shutdown(ctx)
	}
	return nil
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func add(tb testing.TB, table *session.Table, cluster, id string, conn session.Conn) *session.Session {
	tb.Helper()
	s, _, err := table.Add(session.Info{ID: id, Cluster: cluster, ClusterUID: "uid-" + cluster}, conn)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func newTable() *session.Table {
	return session.NewTable(session.Limits{StreamsPerCluster: 3, StreamsPerUser: 2, SessionsPerCluster: 3})
}

func open(table *session.Table, user string) (*session.Stream, error) {
	return table.Open(session.Target{Cluster: "demo", User: user})
}

// TestF18LateEndOfAnOldConnection flaps an agent: the ends of old connections come late, out of
// order, and twice.
func TestF18LateEndOfAnOldConnection(t *testing.T) {
	table := newTable()
	var late []*session.Session
	for i := range 1000 {
		s := add(t, table, "demo", fmt.Sprint(i%3), &fakeConn{}) // ids come again
		for len(late) > 2 || len(late) > 0 && rand.N(2) == 0 {
			at := rand.N(len(late))
			table.Remove(late[at])
			table.Remove(late[at])
			late = append(late[:at], late[at+1:]...)
		}
		stream, err := open(table, "ada")
		if err != nil {
			t.Fatalf("flap %d: %v", i, err)
		}
		if got := stream.Session().Epoch(); got != s.Epoch() {
			t.Fatalf("flap %d: got session %d, want the newest %d", i, got, s.Epoch())
		}
		stream.Release()
		late = append(late, s)
	}
	for _, s := range late {
		table.Remove(s)
	}
	if _, err := open(table, "ada"); !errors.Is(err, session.ErrOffline) {
		t.Errorf("after the last end: got %v, want ErrOffline", err)
	}
	if sessions, streams := table.Counts(); sessions != 0 || streams != 0 {
		t.Errorf("got %d sessions and %d streams, want none", sessions, streams)
	}
}

func TestOpenPassesOverConnectionsThatCannot(t *testing.T) {
	table := newTable()
	old := &fakeConn{}
	add(t, table, "demo", "old", old)
	newest := &fakeConn{status: session.Closing}
	add(t, table, "demo", "new", newest)
	stream, err := open(table, "ada")
	if err != nil || stream.Session().Info().ID != "old" {
		t.Fatalf("got %v, %v, want the old connection", stream, err)
	}
	stream.Release()
	old.set(session.Full)
	if _, err := open(table, "ada"); !errors.Is(err, session.ErrFull) {
		t.Errorf("full and closing: got %v, want ErrFull", err)
	}
	old.set(session.Closing)
	if _, err := open(table, "ada"); !errors.Is(err, session.ErrOffline) {
		t.Errorf("all closing: got %v, want ErrOffline", err)
	}
	if _, err := table.Open(session.Target{Cluster: "demo", ClusterUID: "another", User: "ada"}); !errors.Is(err, session.ErrOffline) {
		t.Errorf("another uid: got %v, want ErrOffline", err)
	}
	if _, streams := table.Counts(); streams != 0 {
		t.Errorf("got %d streams, want none charged for refusals", streams)
	}
}

func TestLimits(t *testing.T) {
	table := newTable()
	add(t, table, "demo", "c", &fakeConn{})
	var streams []*session.Stream
	for _, user := range []string{"ada", "ada", "bob"} {
		stream, err := open(table, user)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	for user, scope := range map[string]session.Scope{"ada": session.ScopeUser, "bob": session.ScopeCluster} {
		var busy *session.BusyError
		if _, err := open(table, user); !errors.As(err, &busy) || busy.Scope != scope {
			t.Errorf("%s: got %v, want the limit of the %s", user, err, scope)
		}
	}
	streams[0].Release()
	streams[0].Release()
	if _, err := open(table, "ada"); err != nil {
		t.Errorf("after a release: %v", err)
	}
	if _, err := open(table, "bob"); err == nil {
		t.Error("releasing twice gave two places")
	}
	if got := table.Sessions("demo")[0]; got.ActiveStreams != 3 || got.TotalStreams != 4 {
		t.Errorf("got %d active of %d, want 3 of 4", got.ActiveStreams, got.TotalStreams)
	}
}

func TestTooManyConnectionsEvictTheOldest(t *testing.T) {
	table := newTable()
	first := add(t, table, "demo", "0", &fakeConn{})
	add(t, table, "demo", "1", &fakeConn{})
	add(t, table, "demo", "2", &fakeConn{})
	_, evicted, err := table.Add(session.Info{ID: "3", Cluster: "demo"}, &fakeConn{})
	if err != nil || len(evicted) != 1 || evicted[0] != first {
		t.Errorf("got %v, %v, want the first session evicted", evicted, err)
	}
	if got := len(table.Sessions("demo")); got != 3 {
		t.Errorf("got %d sessions, want 3", got)
	}
}

func TestRetry(t *testing.T) {
	lost := func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("%w: reset", session.ErrLost) }
	lostAfterBody := func(req *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, req.Body)
		return nil, session.ErrLost
	}
	reset := func(*http.Request) (*http.Response, error) { return nil, errors.New("stream reset") }
	refused := func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("%w: goaway", session.ErrRefused) }
	refusedAfterBody := func(req *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, req.Body)
		return nil, session.ErrRefused
	}
	for name, tc := range map[string]struct {
		method, body string
		first        func(*http.Request) (*http.Response, error)
		retried      bool
	}{
		"GET":                   {method: "GET", first: lost, retried: true},
		"HEAD":                  {method: "HEAD", first: lost, retried: true},
		"GET, body untouched":   {method: "GET", body: "x", first: lost, retried: true},
		"GET, body used":        {method: "GET", body: "x", first: lostAfterBody},
		"POST":                  {method: "POST", first: lost},
		"DELETE":                {method: "DELETE", first: lost},
		"GET, stream's failure": {method: "GET", first: reset},
		"POST, refused":         {method: "POST", body: "x", first: refused, retried: true},
		"POST, refused late":    {method: "POST", body: "x", first: refusedAfterBody},
	} {
		table := newTable()
		var got string
		add(t, table, "demo", "old", &fakeConn{send: func(req *http.Request) (*http.Response, error) {
			if req.Body != nil {
				body, _ := io.ReadAll(req.Body)
				got = string(body)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}})
		add(t, table, "demo", "new", &fakeConn{send: tc.first})
		stream, err := open(table, "ada")
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader
		if tc.body != "" {
			body = strings.NewReader(tc.body)
		}
		req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://kubernetes/", body)
		if err != nil {
			t.Fatal(err)
		}
		res, err := stream.RoundTrip(req)
		if (err == nil) != tc.retried {
			t.Errorf("%s: got %v, want retried=%v", name, err, tc.retried)
		}
		if tc.retried && (got != tc.body || stream.Session().Info().ID != "old") {
			t.Errorf("%s: got body %q on %s, want %q on old", name, got, stream.Session().Info().ID, tc.body)
		}
		if res != nil {
			_ = res.Body.Close()
		}
		stream.Release()
		for _, s := range table.Sessions("demo") {
			if s.ActiveStreams != 0 {
				t.Errorf("%s: session %s has %d streams after the end", name, s.ID, s.ActiveStreams)
			}
		}
	}
}

// TestRefusedRequestsGoOn has agents refuse what they have not begun, again and again, and then
// lose what they may have begun.
func TestRefusedRequestsGoOn(t *testing.T) {
	refuse := func(*http.Request) (*http.Response, error) { return nil, session.ErrRefused }
	lose := func(*http.Request) (*http.Response, error) { return nil, session.ErrLost }
	serve := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
	type send = func(*http.Request) (*http.Response, error)
	for name, tc := range map[string]struct {
		sends []send // the newest connection's comes first
		want  error
	}{
		"refused twice":           {sends: []send{refuse, refuse, serve}},
		"refused, lost":           {sends: []send{refuse, lose, serve}},
		"lost, refused":           {sends: []send{lose, refuse, serve}},
		"lost twice":              {sends: []send{lose, lose, serve}, want: session.ErrLost},
		"refused by all":          {sends: []send{refuse, refuse}, want: session.ErrRefused},
		"refused more than often": {sends: []send{refuse, refuse, refuse, refuse, serve}, want: session.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			limits := session.DefaultLimits()
			limits.SessionsPerCluster = len(tc.sends)
			table := session.NewTable(limits)
			asked := make([]int, len(tc.sends))
			for i := len(tc.sends) - 1; i >= 0; i-- {
				conn := &fakeConn{}
				conn.send = func(req *http.Request) (*http.Response, error) {
					asked[i]++
					conn.set(session.Closing)
					return tc.sends[i](req)
				}
				add(t, table, "demo", fmt.Sprint(i), conn)
			}
			stream, err := open(table, "ada")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Release()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kubernetes/", nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := stream.RoundTrip(req)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if err == nil {
				_ = res.Body.Close()
			}
			if slices.Max(asked) > 1 {
				t.Errorf("connections were asked %v times, want once at most", asked)
			}
		})
	}
}

func TestDrainClosesWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable()
		ends := &fakeConn{}
		stays := &fakeConn{shutdown: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		add(t, table, "demo", "ends", ends)
		add(t, table, "other", "stays", stays)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		drained := make(chan error, 1)
		go func() { drained <- table.Drain(ctx) }()
		<-table.Draining()
		synctest.Wait()
		if _, err := open(table, "ada"); !errors.Is(err, session.ErrDraining) {
			t.Errorf("Open: got %v, want ErrDraining", err)
		}
		if _, _, err := table.Add(session.Info{Cluster: "demo"}, &fakeConn{}); !errors.Is(err, session.ErrDraining) {
			t.Errorf("Add: got %v, want ErrDraining", err)
		}
		began := time.Now()
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain: got %v, want the deadline", err)
		}
		if took := time.Since(began); took != 25*time.Second {
			t.Errorf("drain took %v, want 25 s", took)
		}
		if !stays.closed || ends.closed {
			t.Errorf("got closed=%v and %v, want only the one that did not end closed", stays.closed, ends.closed)
		}
	})
}
