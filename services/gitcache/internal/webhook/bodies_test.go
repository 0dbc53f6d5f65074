// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// unended is a body whose bytes arrive at once, but whose end does not arrive until end is closed.
type unended struct {
	left int
	read *atomic.Int64 // of all bodies
	end  chan struct{}
}

func (u *unended) Read(p []byte) (int, error) {
	if u.left == 0 {
		<-u.end
		return 0, io.EOF
	}
	n := min(len(p), u.left)
	u.left -= n
	u.read.Add(int64(n))
	return n, nil
}

// TestSecBodiesWithoutProofAreBounded sends bodies that do not end from many senders with a made-up
// signature. The handler holds a few of them, and rejects the others unread.
func TestSecBodiesWithoutProofAreBounded(t *testing.T) {
	t.Parallel()
	const largest, senders = 512 << 10, 200
	for name, c := range map[string]struct {
		announced int64
		from      func(i int) string
		held      int64
	}{
		"many sources":             {largest, func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) }, 16 * largest},
		"many sources, no lengths": {-1, func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) }, 16 * largest},
		"one source":               {largest, func(int) string { return "192.0.2.1:1" }, 4 * largest},
		"one IPv6 network":         {-1, func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i) }, 4 * largest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
				var read atomic.Int64
				var all sync.WaitGroup
				end, answers := make(chan struct{}), make(chan int, senders)
				for i := range senders {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/github", &unended{left: largest, read: &read, end: end})
					r.Header.Set("X-GitHub-Event", "push")
					r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("ab", 32))
					r.ContentLength, r.RemoteAddr = c.announced, c.from(i)
					all.Go(func() {
						w := httptest.NewRecorder()
						h.mux.ServeHTTP(w, r)
						answers <- w.Code
					})
				}
				synctest.Wait()
				if got := read.Load(); got != c.held {
					t.Errorf("got %d bytes held before anything was proven, want %d", got, c.held)
				}
				time.Sleep(5 * time.Second) // virtual: waiting deliveries time out
				synctest.Wait()
				if got, want := len(answers), senders-int(c.held/largest); got != want {
					t.Errorf("got %d senders turned away, want %d", got, want)
				}
				close(end)
				all.Wait()
				statuses := map[int]int64{}
				for range senders {
					statuses[<-answers]++
				}
				want := map[int]int64{http.StatusUnauthorized: c.held / largest, http.StatusTooManyRequests: senders - c.held/largest}
				if diff := cmp.Diff(want, statuses); diff != "" {
					t.Errorf("answers (-want +got):\n%s", diff)
				}
				h.send(t, github(t, own, "push", "github-push")) // there is room again
				h.await(t, 1)
			})
		})
	}
}

// forbidden is a body that must not be read.
type forbidden struct{ t *testing.T }

func (f forbidden) Read([]byte) (int, error) {
	f.t.Error("the body was read")
	return 0, io.EOF
}

// TestSecRefusedUnread checks that deliveries that cannot be proven or are too large are rejected
// before their body is read.
func TestSecRefusedUnread(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{repository("shop", "https://github.com/Acme/shop", own)}}).start(t)
	signed := map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("ab", 32)}
	for name, c := range map[string]struct {
		method, path string
		header       map[string]string
		length       int64
		want         int
	}{
		"no signature":      {http.MethodPost, "/webhooks/github", nil, 10, http.StatusUnauthorized},
		"half a signature":  {http.MethodPost, "/webhooks/github/shop", map[string]string{"X-Hub-Signature-256": "sha256=ab"}, 10, http.StatusUnauthorized},
		"no token":          {http.MethodPost, "/webhooks/gitlab", signed, 10, http.StatusUnauthorized},
		"another method":    {http.MethodPut, "/webhooks/github", signed, 10, http.StatusMethodNotAllowed},
		"too large":         {http.MethodPost, "/webhooks/github", signed, 512<<10 + 1, http.StatusRequestEntityTooLarge},
		"an unknown sender": {http.MethodPost, "/webhooks/sourceforge/shop", signed, 10, http.StatusNotFound},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, forbidden{t})
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		r.ContentLength = c.length
		w := httptest.NewRecorder()
		h.mux.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, c.want)
		}
	}
}

// TestSecARepositorysOwnAddress accepts deliveries that the repository's secret proves. The answer
// does not reveal whether the repository exists.
func TestSecARepositorysOwnAddress(t *testing.T) {
	t.Parallel()
	h := (&hub{repositories: []mirror.Definition{
		repository("shop", "https://github.com/Acme/shop", own), repository("copy", "https://github.com/Acme/shop.git", own),
		repository("open", "https://github.com/Acme/shop", ""),
	}}).start(t)
	to := func(secret, repository string) *httptest.ResponseRecorder {
		d := github(t, secret, "push", "github-push")
		d.provider = "github/" + repository
		return h.send(t, d)
	}
	wantStatus(t, to(own, "shop"), http.StatusAccepted)
	if diff := cmp.Diff([]string{"shop"}, h.await(t, 1)); diff != "" {
		t.Errorf("refreshed (-want +got):\n%s", diff)
	}
	wantStatus(t, to(shared, "open"), http.StatusAccepted) // a repository without a secret uses the hub's
	if diff := cmp.Diff([]string{"open"}, h.await(t, 1)); diff != "" {
		t.Errorf("refreshed (-want +got):\n%s", diff)
	}
	wrong, unknown := to(shared, "shop"), to(shared, "nothing")
	wantStatus(t, wrong, http.StatusUnauthorized)
	if diff := cmp.Diff(wrong.Header(), unknown.Header()); diff != "" || wrong.Code != unknown.Code || wrong.Body.String() != unknown.Body.String() {
		t.Errorf("got %d %s for a repository that is not there, want %d %s; headers (-wrong +unknown):\n%s", unknown.Code, unknown.Body, wrong.Code, wrong.Body, diff)
	}
	wantStatus(t, to("stands for the secret of a repository that is not there", "nothing"), http.StatusUnauthorized)
}
