// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"container/list"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

// index tracks which blobs exist, how much room they take, and when each was last read and last
// checked. It does not touch the disk itself: where the disk has to change together with it, it
// calls a function while it holds its lock.
type index struct {
	limit  int64 // of used
	pinned func(digest.Digest) bool
	unlink func(path string) error
	path   func(cas.Info) string
	gone   func(cas.Info) // an evicted blob

	mu      sync.Mutex
	entries map[digest.Digest]*entry
	recency *list.List // of *entry, the most recently read one in front
	checks  *list.List // of *entry, ordered by the last check: those never checked first, then the oldest check
	used    int64      // bytes of blobs, of reservations and of litter
	// litter holds unwanted files that could not be removed, with their sizes.
	litter map[string]int64
}

// entry is a blob. The pointer is its identity: a blob that replaces it is another entry.
type entry struct {
	info cas.Info // without StoredDigest; never changes
	facts

	recency, checks *list.Element
}

// facts is what is known of a blob. It changes under the index's lock.
type facts struct {
	stored   digest.Digest // of the stored bytes; zero until they have been read
	verified bool          // whether this process has verified the bytes
	checked  time.Time     // when it verified them, or tried to; zero: never
	modified time.Time     // the file's time when it verified them, or when it was last set; if it differs, the bytes have changed
}

// describe returns the blob's Info from the known facts.
func (e *entry) describe(known facts) cas.Info {
	info := e.info
	info.StoredDigest = known.stored
	return info
}

func newIndex(limit int64, pinned func(digest.Digest) bool) *index {
	if pinned == nil {
		pinned = func(digest.Digest) bool { return false }
	}
	return &index{
		limit: limit, pinned: pinned,
		entries: make(map[digest.Digest]*entry), recency: list.New(), checks: list.New(), litter: make(map[string]int64),
	}
}

func of(element *list.Element) *entry {
	return element.Value.(*entry) //nolint:errcheck // the lists hold nothing else
}

// get returns a blob and its current facts.
func (x *index) get(d digest.Digest) (*entry, facts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[d]
	if !ok {
		return nil, facts{}, false
	}
	return e, e.facts, true
}

// has reports whether e is still the blob of its name.
func (x *index) has(e *entry) bool {
	return x.entries[e.info.Digest] == e
}

// add lists a blob as the most recently read one. It replaces another blob of the same digest. It
// does not count the bytes of the new blob, because a reservation already does.
func (x *index) add(e *entry) (replaced *entry) {
	replaced = x.entries[e.info.Digest]
	if replaced != nil {
		x.drop(replaced)
	}
	x.entries[e.info.Digest] = e
	e.recency = x.recency.PushFront(e)
	if e.checked.IsZero() {
		e.checks = x.checks.PushFront(e)
	} else {
		e.checks = x.checks.PushBack(e)
	}
	return replaced
}

// adopt lists a blob that an earlier process left. If there is another of its name, one of the two
// names has a wrong content size. The earlier one is unlisted, and verifying the later one shows
// whether that was right.
func (x *index) adopt(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used += e.info.StoredSize
	if twin := x.add(e); twin != nil {
		x.discardFile(x.path(twin.info), twin.info.StoredSize)
	}
}

// publish runs place, which moves a file into place, and lists the blob if that succeeds. The
// file's bytes have been reserved before and stay counted.
func (x *index) publish(e *entry, place func(path string) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	path := x.path(e.info)
	if err := place(path); err != nil {
		return err
	}
	x.used -= x.litter[path] // it was overwritten
	delete(x.litter, path)
	replaced := x.add(e)
	if replaced != nil && x.path(replaced.info) != path { // whose name had a wrong content size
		x.discardFile(x.path(replaced.info), replaced.info.StoredSize)
	}
	return nil
}

// remove unlists exactly this blob, if its file can be removed.
func (x *index) remove(e *entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.has(e) {
		return nil
	}
	if err := x.unlink(x.path(e.info)); err != nil {
		return err
	}
	x.drop(e)
	return nil
}

// discard unlists exactly this blob, whether or not its file can be removed, and reports whether it
// was listed.
func (x *index) discard(e *entry) bool {
	return x.update(e, func(*facts) {
		x.drop(e)
		x.discardFile(x.path(e.info), e.info.StoredSize)
	})
}

// forget unlists exactly this blob, whose file is gone, and reports whether it was listed.
func (x *index) forget(e *entry) bool {
	return x.update(e, func(*facts) { x.drop(e) })
}

func (x *index) drop(e *entry) {
	x.recency.Remove(e.recency)
	x.checks.Remove(e.checks)
	delete(x.entries, e.info.Digest)
	x.used -= e.info.StoredSize
}

// update changes the facts of a blob, or its place in the index, if it is still there. It reports
// whether it is. The lock is held while change runs.
func (x *index) update(e *entry, change func(*facts)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.has(e) {
		return false
	}
	change(&e.facts)
	return true
}

// read records a read.
func (x *index) read(e *entry) {
	x.update(e, func(*facts) { x.recency.MoveToFront(e.recency) })
}

// present reports whether e is still the blob of its name.
func (x *index) present(e *entry) bool {
	return x.update(e, func(*facts) {})
}

// checkedNow records that a blob's bytes were read, or could not be read, so that other blobs are
// checked first next time.
func (x *index) checkedNow(e *entry, change func(*facts)) {
	x.update(e, func(known *facts) {
		change(known)
		known.checked = time.Now()
		x.checks.MoveToBack(e.checks)
	})
}

// stalest returns the blob whose last check is oldest.
func (x *index) stalest() (*entry, facts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.checks.Len() == 0 {
		return nil, facts{}, false
	}
	e := of(x.checks.Front())
	return e, e.facts, true
}

func (x *index) usage() cas.Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return cas.Usage{Bytes: x.used, MaxBytes: x.limit, Blobs: len(x.entries)}
}
