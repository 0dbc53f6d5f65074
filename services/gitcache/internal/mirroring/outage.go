// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"sync"
	"time"
)

const (
	// ownerTimeout bounds one question of the lease store, so that reads go on while the store
	// hangs.
	ownerTimeout = time.Second
	// outageMemory is how long a lease store that did not answer is left alone by all repositories,
	// so that reads go on at their usual speed.
	outageMemory = 2 * time.Second
)

// outage remembers, for all repositories, that the lease store does not answer.
type outage struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

// check returns the recent failure of the store, or nil where the caller is to ask it. After a
// while one caller asks, and the others get the failure until that one has an answer.
func (o *outage) check() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil && time.Now().After(o.until) {
		o.until = time.Now().Add(ownerTimeout)
		return nil
	}
	return o.err
}

// record takes over how a question ended; nil ends the outage.
func (o *outage) record(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.until = err, time.Now().Add(outageMemory)
}
