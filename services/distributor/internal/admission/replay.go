// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"
)

// Replay remembers which assertions were used, for as long as they are valid. It is safe for concurrent use and holds
// a bounded number: past it, new assertions are refused rather than old ones forgotten. Each replica has its own: an
// assertion that was sniffed can be used once on every other replica, within its one minute, by somebody who has
// broken TLS; what it yields is the cluster's own token.
type Replay struct {
	life  time.Duration
	limit int

	mu    sync.Mutex
	older map[string]struct{}
	newer map[string]struct{}
	// turn is when newer becomes older.
	turn time.Time
}

// NewReplay returns a Replay for assertions that are valid for life at the most, and that holds at most limit of them.
func NewReplay(life time.Duration, limit int) *Replay {
	return &Replay{life: life, limit: limit, older: map[string]struct{}{}, newer: map[string]struct{}{}}
}

// First tells whether the id is used for the first time, and remembers it. It is false, too, when there is no room.
func (r *Replay) First(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(time.Now())
	_, inOlder := r.older[id]
	_, inNewer := r.newer[id]
	if inOlder || inNewer || len(r.older)+len(r.newer) >= r.limit {
		return false
	}
	r.newer[id] = struct{}{}
	return true
}

// age forgets in two generations: whatever is remembered stays for at least one life, and at most two.
func (r *Replay) age(now time.Time) {
	switch late := now.Sub(r.turn); {
	case late < 0:
		return
	case late >= r.life:
		r.older = map[string]struct{}{}
	default:
		r.older = r.newer
	}
	r.newer = map[string]struct{}{}
	r.turn = now.Add(r.life)
}
