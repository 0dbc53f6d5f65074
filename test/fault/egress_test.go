// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstreamHost is the host name of the Git server for replicas. It does not resolve: only their
// proxies can reach it.
const upstreamHost = "git.upstream.test"

// egress observes everything that any replica sends upstream, because each replica has its own HTTP
// proxy and no other way out. It checks the first promise: one fetcher.
type egress struct {
	mu     sync.Mutex
	repos  map[string]*traffic
	faults []string
	hold   time.Duration // of every request, so that concurrent requests overlap visibly
}

// traffic is the state of one repository.
type traffic struct {
	inFlight  map[string]int // current requests, by replica
	lister    string         // the replica that last asked for the refs; only it may ask for objects
	fetchedAt time.Time      // when a listing last succeeded
	fetches   int
	objects   int // requests for objects; if nothing is pushed, each is a clone
}

func newEgress() *egress {
	return &egress{repos: make(map[string]*traffic)}
}

// proxy starts the proxy of one replica and returns its URL, for HTTP_PROXY.
func (e *egress) proxy(t *testing.T, replica, upstream string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != upstreamHost {
			http.Error(w, "this proxy leads to the upstream only", http.StatusForbidden)
			return
		}
		repo, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), ".git/")
		listing := strings.HasSuffix(r.URL.Path, "/info/refs")
		e.begin(replica, repo, listing)
		status := &statusRecorder{ResponseWriter: w, code: http.StatusOK}
		// This also runs when the replica is killed in mid-request: ReverseProxy then panics with
		// ErrAbortHandler.
		defer func() { e.end(replica, repo, listing && status.code == http.StatusOK) }()
		e.linger(r.Context())
		forward.ServeHTTP(status, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// holdFor delays every request by that much from now on.
func (e *egress) holdFor(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = d
}

// linger delays a request, unless its sender gives up.
func (e *egress) linger(ctx context.Context) {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	rest(ctx, hold)
}

func (e *egress) begin(replica, repo string, listing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tr := e.repos[repo]
	if tr == nil {
		tr = &traffic{inFlight: make(map[string]int)}
		e.repos[repo] = tr
	}
	for other, n := range tr.inFlight {
		if other != replica && n > 0 {
			e.faults = append(e.faults, fmt.Sprintf("%s asks for %s while %s does", replica, repo, other))
		}
	}
	switch {
	case listing:
		tr.lister = replica
	case tr.lister != replica:
		e.faults = append(e.faults, fmt.Sprintf("%s fetches %s although %s has listed it since", replica, repo, tr.lister))
	}
	if !listing {
		tr.objects++
	}
	tr.inFlight[replica]++
}

func (e *egress) end(replica, repo string, listed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tr := e.repos[repo]
	tr.inFlight[replica]--
	if listed {
		tr.fetchedAt = time.Now()
		tr.fetches++
	}
}

// staleSince returns the repositories that were not fetched after the moment.
func (e *egress) staleSince(moment time.Time, repos []string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var stale []string
	for _, repo := range repos {
		if tr := e.repos[repo]; tr == nil || !tr.fetchedAt.After(moment) {
			stale = append(stale, repo)
		}
	}
	return stale
}

// overlaps returns every breach seen so far.
func (e *egress) overlaps() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.faults...)
}

// total returns the number of successful listings.
func (e *egress) total() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := 0
	for _, tr := range e.repos {
		sum += tr.fetches
	}
	return sum
}

// objects returns the number of requests for objects.
func (e *egress) objects() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	sum := 0
	for _, tr := range e.repos {
		sum += tr.objects
	}
	return sum
}

// statusRecorder records the status that was sent.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (s *statusRecorder) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
