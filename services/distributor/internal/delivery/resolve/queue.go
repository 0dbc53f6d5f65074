// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// queue holds each source at most once, until it is due. A source that is being worked on is not
// handed out again before it is done; asked for in the meantime, it comes again after.
type queue struct {
	mu      sync.Mutex
	waiting byDue
	items   map[catalog.Source]*item
	running map[catalog.Source]struct{}
	// parked are sources that were asked for while they are being worked on.
	parked map[catalog.Source]*item
	// wake receives a value when next may have something earlier to hand out.
	wake wake.Signal
}

// item is one source in the queue.
type item struct {
	source  catalog.Source
	due     time.Time
	trigger *catalog.Trigger
	// answered are closed when the work on this item is done.
	answered []chan struct{}
	index    int
}

func newQueue() *queue {
	return &queue{
		items:   map[catalog.Source]*item{},
		running: map[catalog.Source]struct{}{},
		parked:  map[catalog.Source]*item{},
		wake:    wake.NewSignal(),
	}
}

// add asks for the source at due, or earlier if that was asked for before.
func (q *queue) add(source catalog.Source, due time.Time, trigger *catalog.Trigger) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(source, due, trigger)
}

// addAndWait is add; the channel is closed when work that began afterwards is done.
func (q *queue) addAndWait(source catalog.Source, due time.Time) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.put(source, due, nil)
	answered := make(chan struct{})
	it.answered = append(it.answered, answered)
	return answered
}

func (q *queue) put(source catalog.Source, due time.Time, trigger *catalog.Trigger) *item {
	it, ok := q.items[source]
	if !ok {
		it = q.parked[source]
	}
	switch {
	case it == nil:
		it = &item{source: source, due: due}
		q.enter(it)
	case due.Before(it.due):
		it.due = due
		if ok {
			heap.Fix(&q.waiting, it.index)
			q.wake.Set()
		}
	}
	if trigger != nil {
		it.trigger = trigger
	}
	return it
}

func (q *queue) enter(it *item) {
	if _, busy := q.running[it.source]; busy {
		q.parked[it.source] = it
		return
	}
	q.items[it.source] = it
	heap.Push(&q.waiting, it)
	q.wake.Set()
}

// next waits for the first source that is due. It is for one goroutine. The error is the context's.
func (q *queue) next(ctx context.Context) (*item, error) {
	for {
		it, wait := q.pop(time.Now())
		if it != nil {
			return it, nil
		}
		if err := q.wake.Await(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// pop returns a source that is due, or how long it is until one will be.
func (q *queue) pop(at time.Time) (*item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, time.Hour
	}
	if wait := q.waiting[0].due.Sub(at); wait > 0 {
		return nil, wait
	}
	it, _ := heap.Pop(&q.waiting).(*item)
	delete(q.items, it.source)
	q.running[it.source] = struct{}{}
	return it, 0
}

// lateness returns for how long the source was due at that time which is due first, or zero if it was not.
func (q *queue) lateness(at time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return 0
	}
	return max(at.Sub(q.waiting[0].due), 0)
}

// done ends the work on an item.
func (q *queue) done(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, answered := range it.answered {
		close(answered)
	}
	delete(q.running, it.source)
	if again, ok := q.parked[it.source]; ok {
		delete(q.parked, it.source)
		q.enter(again)
	}
}

// byDue is a heap.
type byDue []*item

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *byDue) Push(x any) {
	if it, ok := x.(*item); ok {
		it.index = len(*h)
		*h = append(*h, it)
	}
}

// Pop implements heap.Interface.
func (h *byDue) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
