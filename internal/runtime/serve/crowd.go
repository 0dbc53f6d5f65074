// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"container/list"
	"net/netip"
	"sync"
)

// addressShare is the fraction of a crowd's bound that one address may use: a quarter.
const addressShare = 4

// crowd holds what unauthenticated callers have begun, oldest first. Past the bound, or past a
// quarter of it for one address, the oldest entry has to end. An honest caller authenticates or
// gets its answer soon, so the oldest entry is most likely an attacker's. It is safe for concurrent
// use.
type crowd[T any] struct {
	bound int

	mu        sync.Mutex
	oldest    *list.List
	byAddress map[netip.Prefix]*list.List
}

// place is the position of an entry in a crowd.
type place[T any] struct {
	value T
	from  netip.Prefix
	// inOrder and inAddress are guarded by the crowd's lock, and nil after the entry has left.
	inOrder, inAddress *list.Element
}

func newCrowd[T any](bound int) *crowd[T] {
	return &crowd[T]{bound: bound, oldest: list.New(), byAddress: map[netip.Prefix]*list.List{}}
}

// add adds value and returns its place. crowdedOut is the entry that the caller must end to make
// room; it has already left the crowd. It is nil if there was room. If shared is true, many callers
// may use the address, and it may use the whole bound.
func (c *crowd[T]) add(value T, from netip.Prefix, shared bool) (p, crowdedOut *place[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := c.byAddress[from]
	if same == nil {
		same = list.New()
		c.byAddress[from] = same
	}
	p = &place[T]{value: value, from: from}
	p.inOrder, p.inAddress = c.oldest.PushBack(p), same.PushBack(p)
	switch {
	case !shared && same.Len() > max(1, c.bound/addressShare):
		crowdedOut, _ = same.Front().Value.(*place[T])
	case c.oldest.Len() > c.bound:
		crowdedOut, _ = c.oldest.Front().Value.(*place[T])
	}
	if crowdedOut != nil {
		c.leaveLocked(crowdedOut)
	}
	return p, crowdedOut
}

// leave removes a place. It may be called more than once.
func (c *crowd[T]) leave(p *place[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(p)
}

func (c *crowd[T]) leaveLocked(p *place[T]) {
	if p.inOrder == nil {
		return
	}
	c.oldest.Remove(p.inOrder)
	same := c.byAddress[p.from]
	same.Remove(p.inAddress)
	if same.Len() == 0 {
		delete(c.byAddress, p.from)
	}
	p.inOrder, p.inAddress = nil, nil
}

func (c *crowd[T]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.oldest.Len()
}
