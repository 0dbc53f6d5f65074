// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota bounds the bytes that people and clusters move in a span of time.
//
// The span slides: with a window of an hour, bytes that were moved an hour ago no longer count. A
// user over quota gets no new request until the window frees enough. Running requests may continue,
// and are ended only when they have used up the quota a second time. The numbers are one replica's.
package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// slots is the number of parts of a window. Bytes are forgotten a part at a time, so that they
// count for a window and at most a sixtieth of it.
const slots = 60

// Scope is the owner of the quota.
type Scope string

// The quotas.
const (
	// ScopeUser is the quota of one person over all clusters.
	ScopeUser Scope = "user"
	// ScopeCluster is the quota of one cluster over all people.
	ScopeCluster Scope = "cluster"
)

// ExceededError means that a quota is used up.
type ExceededError struct {
	// Scope is whose quota it is, and Limit its bytes in a Window.
	Scope  Scope
	Limit  int64
	Window time.Duration
	// RetryAfter is how long it takes until enough is forgotten, if nothing is added.
	RetryAfter time.Duration
}

// Error implements error.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("quota of %d bytes in %v for this %s is used up", e.Limit, e.Window, e.Scope)
}

// Params are the quotas. Zero bytes mean no quota.
type Params struct {
	// UserBytes and ClusterBytes are how much one person and one cluster may move in a window.
	UserBytes    int64
	ClusterBytes int64
	// Window is how long bytes count. Zero means an hour.
	Window time.Duration
}

// Ledger counts. It is safe for concurrent use. Its memory follows who has moved something within
// the window.
type Ledger struct {
	window  time.Duration
	user    int64
	cluster int64
	swept   time.Time // protected by mu

	mu       sync.Mutex
	accounts map[key]*account
}

type key struct {
	scope Scope
	name  string
}

// New returns an empty ledger.
func New(params Params) *Ledger {
	if params.Window <= 0 {
		params.Window = time.Hour
	}
	return &Ledger{
		window: params.Window, user: params.UserBytes, cluster: params.ClusterBytes, swept: time.Now(),
		accounts: map[key]*account{},
	}
}

// Admit begins a request of a person to a cluster. It fails with an [*ExceededError] when a quota
// is used up. The meter must be closed at the request's end. A nil ledger has no quotas.
func (l *Ledger) Admit(user, cluster string) (*Meter, error) {
	if l == nil {
		return nil, nil
	}
	now := time.Now()
	meter := &Meter{}
	for _, part := range []struct {
		key   key
		limit int64
	}{{key{ScopeUser, user}, l.user}, {key{ScopeCluster, cluster}, l.cluster}} {
		if part.limit <= 0 {
			continue
		}
		a := l.hold(part.key, part.limit, now)
		meter.accounts = append(meter.accounts, a)
		if err := a.admit(now); err != nil {
			meter.Close()
			return nil, err
		}
	}
	return meter, nil
}

// hold returns an account and keeps it until it is let go.
func (l *Ledger) hold(k key, limit int64, now time.Time) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	a, ok := l.accounts[k]
	if !ok {
		a = &account{scope: k.scope, limit: limit, window: l.window, slot: l.window / slots, began: now}
		l.accounts[k] = a
	}
	a.held.Add(1)
	return a
}

// sweep forgets accounts without bytes, once in a window. The lock is held.
func (l *Ledger) sweep(now time.Time) {
	if now.Sub(l.swept) < l.window {
		return
	}
	l.swept = now
	for k, a := range l.accounts {
		if a.held.Load() == 0 && a.idle(now) {
			delete(l.accounts, k)
		}
	}
}

// Accounts returns how many people and clusters are counted at the moment.
func (l *Ledger) Accounts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accounts)
}

// exceeded counts, by scope, who would be refused now.
func (l *Ledger) exceeded() map[Scope]int64 {
	l.mu.Lock()
	accounts := slices.Collect(maps.Values(l.accounts))
	l.mu.Unlock()
	found, now := map[Scope]int64{ScopeUser: 0, ScopeCluster: 0}, time.Now()
	for _, a := range accounts {
		if a.admit(now) != nil {
			found[a.scope]++
		}
	}
	return found
}

// Meter counts the bytes of one request. A nil meter counts nothing. It is safe for concurrent use.
type Meter struct {
	accounts []*account
	once     sync.Once
}

// Add counts bytes. It fails with an [*ExceededError] when a quota is used up twice over; the
// request must then be ended.
func (m *Meter) Add(n int64) error {
	if m == nil {
		return nil
	}
	var failed error
	for _, a := range m.accounts {
		failed = cmp.Or(failed, a.add(n, time.Now()))
	}
	return failed
}

// Close ends the request's part. It may be called again.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	m.once.Do(func() {
		for _, a := range m.accounts {
			a.held.Add(-1)
		}
	})
}
