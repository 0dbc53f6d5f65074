// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"errors"
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

// lossy loses what it is sent, after it has read some of it.
type lossy struct {
	reads int
	err   error
	lost  int
}

func (l *lossy) RoundTrip(req *http.Request, route relay.Route, target relay.Target) (*http.Response, error) {
	if l.lost == 0 {
		l.lost++
		if req.Body != nil {
			_, _ = io.ReadFull(req.Body, make([]byte, l.reads))
		}
		return nil, l.err
	}
	if req.Body != nil {
		body, _ := io.ReadAll(req.Body)
		return answer(string(body)), nil
	}
	return answer("again"), nil
}

// TestRepeatedRequestsAreWhole repeats what is safe to repeat, from its first byte.
func TestRepeatedRequestsAreWhole(t *testing.T) {
	long := strings.Repeat("x", 100_000)
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				b, c := f.start(t, "b"), f.start(t, "c")
				time.Sleep(time.Second)
				b.connect(t, "demo", "b")
				c.connect(t, "demo", "c")
				time.Sleep(time.Second)
				peers := &lossy{reads: tc.reads, err: tc.err}
				router := relay.New(relay.Params{
					Table: session.NewTable(session.DefaultLimits()), Self: relay.Replica{ID: "a"}, Store: f.store, Peers: peers,
					Logger: slog.New(slog.DiscardHandler),
				})
				stream, err := router.Open(t.Context(), relay.Target{Target: session.Target{Cluster: "demo"}})
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Release()
				var body io.Reader
				if tc.body != "" {
					body = strings.NewReader(tc.body)
				}
				req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://kubernetes/", body)
				if err != nil {
					t.Fatal(err)
				}
				res, err := stream.RoundTrip(req)
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
