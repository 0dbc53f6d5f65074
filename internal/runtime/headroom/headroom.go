// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package headroom decides how far the heap of the process grows between two collections of garbage. A process has
// one heap, so all that it decides is for the whole process.
package headroom

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultGCPercent is GOGC's value by default.
	defaultGCPercent = 100
	// collectorShare is how much of one core the garbage collector may use.
	collectorShare = 0.025
	// leastHeadroom is the smallest headroom. A part of a large heap is added, so that a sudden
	// load does not outrun the first collection.
	leastHeadroom       = 8 << 20
	leastHeadroomFactor = 1.0 / 8
	// interval is how soon a process whose work has ended gives memory back.
	interval = 5 * time.Second
	// loadFactor is how many times its own size a heap may grow by while it is loaded.
	loadFactor = 4
	// limitShare is the part of the memory which the process may use and does not, by which its heap may grow.
	limitShare = 0.5
)

// Keep lets the heap of the process grow between two collections by as much as keeps the
// collector at a fortieth of one core, instead of by its own size. A busy process collects seldom,
// though its heap is small. A process with a large heap and little to do needs little more memory
// than is alive. Between two collections, the heap never grows by more than its own size, or small
// bytes if that is more. So requests that leave only garbage, which may be an attack, cost a small process
// little memory. Nor does it grow by more than most bytes, or half of the memory that a limit
// (GOMEMLIMIT) leaves free if that is more: one collection of a large heap costs seconds.
//
// Keep does nothing if GOGC is set. The returned function ends it. It is for main functions.
func Keep(small, most uint64) (stop func()) {
	if given := debug.SetGCPercent(defaultGCPercent); given != defaultGCPercent {
		debug.SetGCPercent(given)
		return func() {}
	}
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		keep(stopped, bounds{small: small, most: most})
	}()
	return sync.OnceFunc(func() {
		close(stopped)
		<-ended
		debug.SetGCPercent(defaultGCPercent)
	})
}

// loading counts the calls of Grow that have not ended, and changed is notified of each change.
var (
	loading atomic.Int64
	changed = make(chan struct{}, 1)
)

// Grow lets the heap grow further between two collections until end is called: of what a program loads at its start,
// nearly all stays, and each collection that follows it is in vain. Only Keep reads it, within the same bound for
// all bytes. It is safe for concurrent use; end may be called more than once.
func Grow() (end func()) {
	add := func(n int64) {
		loading.Add(n)
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// bounds are the bounds of Keep, in bytes.
type bounds struct {
	small, most uint64
	// limit is how many bytes the process may use; zero: there is no limit.
	limit uint64
	// isLoading is true while most allocations stay.
	isLoading bool
}

// now returns the bounds with the limit and the loading of this moment.
func (b bounds) now() bounds {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // a negative limit only reads
		b.limit = uint64(limit)
	}
	b.isLoading = loading.Load() > 0
	return b
}

// keep sets GOGC after each collection, and every few seconds: a process that was busy is
// not to keep its memory until it has allocated as much again.
func keep(stopped <-chan struct{}, b bounds) {
	collections := make(chan struct{}, 1)
	notifyCollection(collections)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	percent := defaultGCPercent
	last, lastAt, cost := readHeap(), time.Now(), 0.0
	for {
		isCollected := false
		select {
		case <-stopped:
			return
		case <-collections:
			isCollected = true
			notifyCollection(collections)
		case <-tick.C:
		case <-changed:
		}
		now, at := readHeap(), time.Now()
		if isCollected {
			cost = now.collector - last.collector
		}
		rate := float64(now.allocated-last.allocated) / max(at.Sub(lastAt).Seconds(), 1e-3)
		last, lastAt = now, at
		// Setting it stops the world for a moment, so small differences are left alone.
		next := percentFor(now.live, b.now().headroomFor(now.live, rate, cost))
		if math.Abs(float64(next-percent)) > float64(percent)/10 {
			debug.SetGCPercent(next)
			percent = next
		}
	}
}

// notifyCollection sends to the channel after the next collection, unless it is full: that runs the
// finalizer of an object without references.
func notifyCollection(collections chan<- struct{}) {
	runtime.SetFinalizer(&collected{collections}, func(c *collected) {
		select {
		case c.collections <- struct{}{}:
		default:
		}
	})
}

type collected struct{ collections chan<- struct{} }

// heap is the state of the heap after a collection.
type heap struct {
	live      uint64
	allocated uint64  // bytes since the process began
	collector float64 // seconds of processor time since the process began
}

// readHeap returns the state of the heap. Marking by processors that have nothing else to do is
// free, and is left out.
func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
	}
	metrics.Read(samples)
	return heap{
		live: samples[0].Value.Uint64(), allocated: samples[1].Value.Uint64(),
		collector: samples[2].Value.Float64() - samples[3].Value.Float64(),
	}
}

// headroomFor returns by how many bytes the heap may grow until the next collection. The process
// allocates rate bytes a second, and a collection costs the given seconds of processor time. If one
// follows after each h bytes, the collector uses cost×rate/h of a core. Keep explains the bounds.
func (b bounds) headroomFor(live uint64, rate, cost float64) uint64 {
	most := float64(b.most)
	if b.limit > live {
		most = max(most, float64(b.limit-live)*limitShare)
	}
	if b.isLoading {
		return uint64(min(float64(max(live*loadFactor, b.small)), most))
	}
	least := leastHeadroom + float64(live)*leastHeadroomFactor
	return uint64(min(max(rate*cost/collectorShare, least), float64(max(live, b.small)), most))
}

// percentFor returns the GOGC that lets the heap grow by the given bytes.
func percentFor(live, headroom uint64) int {
	return int(max(headroom*100/max(live, 1<<20), 1))
}
