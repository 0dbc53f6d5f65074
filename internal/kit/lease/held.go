// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"sync"
	"time"
)

// Held is a lease that [Hold] keeps alive, as seen by the work under it. Its methods may be called
// concurrently.
type Held struct {
	mu    sync.Mutex
	lease Lease
	lost  error // why the lease is over; nil while it is held
	heir  string
	keep  time.Duration // how long the lease is reserved for heir
}

// Bequeath makes [Hold] reserve the lease for heir for the given time when it releases the lease
// after work has returned. An empty heir cancels an earlier call.
func (h *Held) Bequeath(heir string, reserve time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heir, h.keep = heir, reserve
}

func (h *Held) bequest() (heir string, reserve time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heir, h.keep
}

// Epoch returns the fencing number. It does not change during one call of the work.
func (h *Held) Epoch() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Epoch
}

// Lease returns the lease as last renewed.
func (h *Held) Lease() Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// Check reports whether the lease may still be relied on. It returns an error that matches
// [ErrLost] once the lease is known to be lost or its deadline has passed, and from then on always.
// It makes no request and costs almost nothing. Call it right before anything that only the holder
// may do, because the context of the work is cancelled by a timer, and a process that was frozen
// and woke up may run on for an instant before its timers do.
func (h *Held) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil && h.lease.Expired(time.Now()) {
		h.lost = fmt.Errorf("%q at epoch %d: not renewed in time: %w", h.lease.Key, h.lease.Epoch, ErrLost)
	}
	return h.lost
}

// renewed stores a renewed lease, unless the lease was lost in the meantime: a loss that the work
// may have seen is final.
func (h *Held) renewed(l Lease) error {
	if err := h.Check(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = l
	return nil
}

// lose ends the lease for the given reason, unless it has ended before.
func (h *Held) lose(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost == nil {
		h.lost = reason
	}
}
