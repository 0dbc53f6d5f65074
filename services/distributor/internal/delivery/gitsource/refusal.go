// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"sync/atomic"
	"time"
)

// refusalPatience is how long gitcache has to refuse this replica's tokens until that counts. A replica of
// gitcache whose own clock is off refuses them, too, and the next attempt goes to another one.
const refusalPatience = 30 * time.Second

// refusal records since when every attempt to follow gitcache's events has ended with a refused token. It is safe for
// concurrent use.
type refusal struct{ since atomic.Pointer[time.Time] }

func (r *refusal) begin() {
	now := time.Now()
	r.since.CompareAndSwap(nil, &now)
}

func (r *refusal) end() { r.since.Store(nil) }

func (r *refusal) lasts() bool {
	since := r.since.Load()
	return since != nil && time.Since(*since) >= refusalPatience
}
