// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostgate bounds what goes to each host, over all its repositories: conversations at once,
// requests per second, and none at all while the host asks to be left alone.
package hostgate

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// maxQuiet bounds what a host can ask for.
	maxQuiet = time.Hour
	// minQuiet is the least after a refusal that names no time.
	minQuiet     = 10 * time.Second
	initialQuiet = 30 * time.Second
	longestQuiet = 15 * time.Minute
	// manyHosts is where hosts that nothing is known of any more are forgotten.
	manyHosts = 1024
)

// Config are the bounds of every single host. A field that is zero takes the value that it has in
// [DefaultConfig].
type Config struct {
	Sessions int // conversations at once
	Requests int // per second
	Burst    int // requests that may come at once after a rest
}

// DefaultConfig returns bounds that public hosts tolerate.
func DefaultConfig() Config { return Config{Sessions: 8, Requests: 20, Burst: 40} }

func (c Config) withDefaults() Config {
	d := DefaultConfig()
	return Config{Sessions: cmp.Or(c.Sessions, d.Sessions), Requests: cmp.Or(c.Requests, d.Requests), Burst: cmp.Or(c.Burst, d.Burst)}
}

// Gate keeps the bounds. All methods may be called concurrently.
type Gate struct {
	config Config

	mu    sync.Mutex
	hosts map[string]*host
}

// host is the state of one host. Its fields below the limits belong to the gate's lock.
type host struct {
	sessions *semaphore.Weighted // first come, first served
	requests *rate.Limiter       // the same

	users    int // sessions, and waiters for one
	quiet    time.Time
	refusals int // in a row, without a time named
}

// New returns a gate that no host has passed yet.
func New(config Config) *Gate {
	return &Gate{config: config.withDefaults(), hosts: map[string]*host{}}
}

// Enter waits for the right to one conversation with a host, and returns what gives it back, which
// is to be called once. Errors are the context's cause, or a *[mirror.QuietError] while the host
// wants to be left alone.
func (g *Gate) Enter(ctx context.Context, name string) (leave func(), err error) {
	h := g.join(name)
	leave = func() { g.part(h) }
	if err := g.checkQuiet(name, h); err != nil {
		leave()
		return nil, err
	}
	if err := h.sessions.Acquire(ctx, 1); err != nil {
		leave()
		return nil, context.Cause(ctx)
	}
	leave = func() { h.sessions.Release(1); g.part(h) }
	if err := g.checkQuiet(name, h); err != nil { // it was asked for while this one waited
		leave()
		return nil, err
	}
	return leave, nil
}

// Request waits for the right to send one request. It returns the errors of Enter, or that the
// context's deadline is too near to wait.
func (g *Gate) Request(ctx context.Context, name string) error {
	h := g.join(name)
	defer g.part(h)
	if err := g.checkQuiet(name, h); err != nil {
		return err
	}
	if err := h.requests.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for the rate limit of %s: %w", name, err)
	}
	return g.checkQuiet(name, h)
}

// Report records the host's answer to a request: 429, or any refusal that names a time, pauses
// requests of all repositories.
func (g *Gate) Report(name string, status int, retryAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hostLocked(name)
	var wait time.Duration
	switch {
	case refuses(status) && retryAfter > 0:
		wait = min(retryAfter, maxQuiet)
	case status == http.StatusTooManyRequests:
		policy := backoff.Policy{Initial: initialQuiet, Max: longestQuiet}
		wait = max(policy.Delay(h.refusals), minQuiet)
		h.refusals++
	case status < http.StatusInternalServerError:
		h.refusals = 0
		return
	}
	if until := time.Now().Add(wait); until.After(h.quiet) {
		h.quiet = until
	}
}

func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusForbidden
}

func (g *Gate) checkQuiet(name string, h *host) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.quiet.After(time.Now()) {
		return &mirror.QuietError{Host: name, Until: h.quiet}
	}
	return nil
}

func (g *Gate) join(name string) *host {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.hostLocked(name)
	h.users++
	return h
}

func (g *Gate) part(h *host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.users--
}

func (g *Gate) hostLocked(name string) *host {
	if h, ok := g.hosts[name]; ok {
		return h
	}
	if len(g.hosts) >= manyHosts {
		g.forgetLocked()
	}
	h := &host{
		sessions: semaphore.NewWeighted(int64(g.config.Sessions)),
		requests: rate.NewLimiter(rate.Limit(g.config.Requests), g.config.Burst),
	}
	g.hosts[name] = h
	return h
}

// forgetLocked drops hosts that a new entry would treat no otherwise: redirects can name any number
// of them.
func (g *Gate) forgetLocked() {
	now := time.Now()
	for name, h := range g.hosts {
		if h.users == 0 && h.quiet.Before(now) && h.requests.Tokens() >= float64(g.config.Burst) {
			delete(g.hosts, name)
		}
	}
}
