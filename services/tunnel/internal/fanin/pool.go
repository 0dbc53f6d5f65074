// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"cmp"
	"slices"
	"sync"
)

// pool has the feeds of a relay.
type pool struct {
	params *Params
	tally  *tally

	sweeping sync.Mutex // held during a sweep; may be held when the other locks are acquired

	mu    sync.Mutex
	feeds map[string][]*feed // by key, newest last
	count int
}

// find returns the feeds with a key that the caller has not tried, newest first. If there is none,
// it adds the feed that begin returns, and returns only that. Of viewers that come at the same time
// exactly one begins a feed, and the others find it.
func (p *pool) find(key string, tried []*feed, begin func() *feed) (untried []*feed, begun *feed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range slices.Backward(p.feeds[key]) {
		if !slices.Contains(tried, f) {
			untried = append(untried, f)
		}
	}
	if len(untried) == 0 {
		begun = begin()
		p.feeds[key] = append(p.feeds[key], begun)
		p.count++
	}
	return untried, begun
}

// remove forgets a feed of the pool.
func (p *pool) remove(key string, f *feed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	p.feeds[key] = slices.DeleteFunc(p.feeds[key], func(other *feed) bool { return other == f })
	if len(p.feeds[key]) == 0 {
		delete(p.feeds, key)
	}
}

// all returns every feed.
func (p *pool) all() []*feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	feeds := make([]*feed, 0, p.count)
	for _, list := range p.feeds {
		feeds = append(feeds, list...)
	}
	return feeds
}

// size is the number of feeds.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// sweep brings all histories together below their bound. Entries that every viewer has read go
// first. If that is not enough, the slowest viewers lose entries that they have not read. Callers
// that come meanwhile wait, so that the bound holds however many feeds append at the same time.
func (p *pool) sweep() {
	if !p.isOver() {
		return
	}
	p.sweeping.Lock()
	defer p.sweeping.Unlock()
	for _, unread := range []bool{false, true} {
		if p.isOver() {
			p.dropOldest(unread)
		}
	}
}

func (p *pool) isOver() bool { return p.tally.bytes.Load() > int64(p.params.TotalBytes) }

// dropOldest drops entries that may go, over all feeds in the order of their age, until the bound
// is undercut by an eighth, so that the next sweep is not due at once.
func (p *pool) dropOldest(unread bool) {
	feeds := p.all()
	var entries []dropped
	for _, f := range feeds {
		entries = f.droppable(entries, unread)
	}
	slices.SortFunc(entries, func(a, b dropped) int { return cmp.Compare(a.age, b.age) })
	excess, youngest := p.tally.bytes.Load()-int64(p.params.TotalBytes-p.params.TotalBytes/8), int64(0)
	for _, e := range entries {
		if excess <= 0 {
			break
		}
		excess, youngest = excess-e.cost, e.age
	}
	for _, f := range feeds {
		f.dropUntil(youngest, unread)
	}
}
