// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// defaultGCPercent is the Go runtime's default for GOGC.
const defaultGCPercent = 100

// KeepHeadroom makes the heap grow by at least low and at most high bytes between two collections,
// instead of by its own size. Otherwise a small heap that serves many requests would be collected
// many times a second, and a large heap that hardly changes would take twice its size. It does
// nothing if GOGC is set. The returned function ends it.
//
// It is for main functions, since a process has one heap.
func KeepHeadroom(low, high uint64) (stop func()) {
	if given := debug.SetGCPercent(defaultGCPercent); given != defaultGCPercent {
		debug.SetGCPercent(given)
		return func() {}
	}
	h := &headroom{low: low, high: high, percent: defaultGCPercent}
	h.adjust()
	return h.stop
}

// headroom sets GOGC again after each collection.
type headroom struct {
	low, high uint64

	mu      sync.Mutex
	percent int
	stopped bool
}

// collected is an unreachable object. Its finalizer runs after the next collection and adjusts
// GOGC.
type collected struct{ h *headroom }

func (h *headroom) adjust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	// Setting the percentage stops the world for a moment, so small differences are ignored.
	if next := h.wanted(); math.Abs(float64(next-h.percent)) > float64(h.percent)/10 {
		debug.SetGCPercent(next)
		h.percent = next
	}
	runtime.SetFinalizer(&collected{h}, func(c *collected) { c.h.adjust() })
}

// wanted returns by how many percent of the live heap the heap may grow.
func (h *headroom) wanted() int {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := max(sample[0].Value.Uint64(), 1<<20)
	return int(min(max(live, h.low), h.high) * 100 / live)
}

func (h *headroom) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	debug.SetGCPercent(defaultGCPercent)
}
