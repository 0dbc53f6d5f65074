// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

// index knows which blobs there are, how much room they take and which was read last. It touches no disk itself: where
// the disk has to change together with it, the caller passes a function that runs under the index's lock.
type index struct {
	limit  int64 // of used
	pinned func(digest.Digest) bool
	evict  func(cas.Info) error // removes an evicted blob's file

	mu      sync.Mutex
	entries map[digest.Digest]*list.Element // of *entry
	recency *list.List                      // of *entry, the last read one in front
	used    int64                           // bytes of blobs and of reservations
}

type entry struct {
	info     cas.Info
	verified bool      // whether this process has seen the right bytes
	touched  time.Time // the modification time of the file, as far as this process knows
}

func newIndex(limit int64, pinned func(digest.Digest) bool, evict func(cas.Info) error) *index {
	if pinned == nil {
		pinned = func(digest.Digest) bool { return false }
	}
	return &index{
		limit: limit, pinned: pinned, evict: evict,
		entries: make(map[digest.Digest]*list.Element), recency: list.New(),
	}
}

func of(element *list.Element) *entry {
	return element.Value.(*entry) //nolint:errcheck // the list holds nothing else
}

func (x *index) get(d digest.Digest) (info cas.Info, verified, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	element, ok := x.entries[d]
	if !ok {
		return cas.Info{}, false, false
	}
	return of(element).info, of(element).verified, true
}

// add lists a blob, as the last read one. It replaces another of the same digest, and does not count the bytes of the
// new one: for those there is a reservation.
func (x *index) add(e *entry) (replaced cas.Info) {
	if old, ok := x.entries[e.info.Digest]; ok {
		replaced = of(old).info
		x.drop(old)
	}
	x.entries[e.info.Digest] = x.recency.PushFront(e)
	return replaced
}

// adopt lists a blob that an earlier process left, and returns what it replaced.
func (x *index) adopt(e *entry) (replaced cas.Info) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used += e.info.StoredSize
	return x.add(e)
}

// publish runs place, which moves a file to where it belongs, and lists the blob if that succeeds. The file's bytes have
// been reserved before and stay counted. It returns what the blob replaced.
func (x *index) publish(e *entry, place func() error) (replaced cas.Info, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := place(); err != nil {
		return cas.Info{}, err
	}
	return x.add(e), nil
}

// remove unlists exactly this blob and runs unlink, if there is any, before anybody can put it again.
func (x *index) remove(info cas.Info, unlink func(cas.Info) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	element, ok := x.entries[info.Digest]
	if !ok || !sameFile(of(element).info, info) {
		return nil
	}
	if unlink != nil {
		if err := unlink(info); err != nil {
			return err
		}
	}
	x.drop(element)
	return nil
}

func (x *index) drop(element *list.Element) {
	x.recency.Remove(element)
	delete(x.entries, of(element).info.Digest)
	x.used -= of(element).info.StoredSize
}

// markVerified notes that the blob's bytes are right, and what they hash to.
func (x *index) markVerified(info cas.Info) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if element, ok := x.entries[info.Digest]; ok && sameFile(of(element).info, info) {
		of(element).verified = true
		of(element).info = info
	}
}

// sameFile tells whether two descriptions are of one file, whether its bytes have been read yet or not.
func sameFile(a, b cas.Info) bool {
	a.StoredDigest = b.StoredDigest
	return a == b
}

// touch notes a read, and tells whether the file's time is so old that it should be set too.
func (x *index) touch(d digest.Digest, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	element, ok := x.entries[d]
	if !ok {
		return false
	}
	x.recency.MoveToFront(element)
	if now.Sub(of(element).touched) < touchEvery {
		return false
	}
	of(element).touched = now
	return true
}

// reserve counts n bytes that are about to be written, and evicts for them. When that is not enough nothing is evicted,
// nothing is counted, and the error is cas.ErrFull.
func (x *index) reserve(n int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if over := x.used + n - x.limit; over > 0 {
		if err := x.free(over, true); err != nil {
			return err
		}
	}
	x.used += n
	return nil
}

// release gives back what reserve counted.
func (x *index) release(n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used -= n
}

// shed evicts about n bytes because the disk has no room, whatever the bound says. It tells whether anything went.
func (x *index) shed(n int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.used
	return x.free(n, false) == nil && x.used < before
}

// free evicts the least recently read blobs that are not pinned until n bytes are gone. With all it evicts nothing where
// n cannot be reached.
func (x *index) free(n int64, all bool) error {
	var victims []*list.Element
	var sum int64
	for e := x.recency.Back(); e != nil && sum < n; e = e.Prev() {
		if info := of(e).info; !x.pinned(info.Digest) {
			victims = append(victims, e)
			sum += info.StoredSize
		}
	}
	if all && sum < n {
		return fmt.Errorf("%w: %d of %d bytes used, %d of them can be evicted", cas.ErrFull, x.used, x.limit, sum)
	}
	for _, victim := range victims {
		if err := x.evict(of(victim).info); err != nil {
			return err
		}
		x.drop(victim)
	}
	return nil
}

func (x *index) usage() cas.Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return cas.Usage{Bytes: x.used, MaxBytes: x.limit, Blobs: len(x.entries)}
}
