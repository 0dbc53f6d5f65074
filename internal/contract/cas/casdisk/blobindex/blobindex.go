// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package blobindex tracks which blobs a store on disk has, how much room they take, and when each
// was last read and last checked. It evicts the least recently read ones.
//
// It does not touch the disk itself: where the disk has to change together with the list, it calls a
// function of its [Config] while it holds its lock. A file that was to go and could not be removed is
// litter: it counts as used until [Index.Tidy] removes it.
package blobindex

import (
	"container/list"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// Config holds the settings and functions of an [Index]. Its functions are called under the index's
// lock, so they must be quick and must not call the index. All but Pinned are required.
type Config struct {
	Limit   int64                    // of the bytes that are used
	Pinned  func(digest.Digest) bool // reports whether a blob must not be evicted; nil: none
	Path    func(cas.Info) string    // returns where a blob's file is
	Unlink  func(path string) error  // removes a file; an absent one is not an error
	Evicted func(cas.Info)           // is called after a blob has been evicted
}

// Index is the list of a store's blobs. It may be used concurrently.
type Index struct {
	cfg Config

	mu      sync.Mutex
	entries map[digest.Digest]*Entry
	recency *list.List // of *Entry, the most recently read one in front
	checks  *list.List // of *Entry, ordered by the last check: those never checked first, then the oldest check
	used    int64      // bytes of blobs, of reservations and of litter
	// litter holds unwanted files that could not be removed, with their sizes.
	litter map[string]int64
}

// Entry is a blob. The pointer is its identity: a blob that replaces it is another entry.
type Entry struct {
	Info cas.Info // without StoredDigest; never changes
	Facts

	recency, checks *list.Element
}

// Facts describes a blob. It changes under the index's lock.
type Facts struct {
	Stored   digest.Digest // of the stored bytes; zero until they have been read
	Verified bool          // whether this process has verified the bytes
	Checked  time.Time     // when it verified them, or tried to; zero: never
	// Modified is the file's time when this process verified the bytes, or when it was last set. If the
	// file has another, its bytes have changed.
	Modified time.Time
}

// Describe returns the blob's Info from the known facts.
func (e *Entry) Describe(known Facts) cas.Info {
	info := e.Info
	info.StoredDigest = known.Stored
	return info
}

// New returns an Index of no blobs.
func New(cfg Config) *Index {
	if cfg.Pinned == nil {
		cfg.Pinned = func(digest.Digest) bool { return false }
	}
	return &Index{
		cfg: cfg, entries: make(map[digest.Digest]*Entry), recency: list.New(), checks: list.New(),
		litter: make(map[string]int64),
	}
}

func of(element *list.Element) *Entry {
	return element.Value.(*Entry) //nolint:errcheck // the lists hold nothing else
}

// Get returns a blob and its current facts.
func (x *Index) Get(d digest.Digest) (*Entry, Facts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.entries[d]
	if !ok {
		return nil, Facts{}, false
	}
	return e, e.Facts, true
}

// has reports whether e is still the blob of its name.
func (x *Index) has(e *Entry) bool {
	return x.entries[e.Info.Digest] == e
}

// add lists a blob as the most recently read one. It replaces another blob of the same digest. It
// does not count the bytes of the new blob, because a reservation already does.
func (x *Index) add(e *Entry) (replaced *Entry) {
	replaced = x.entries[e.Info.Digest]
	if replaced != nil {
		x.drop(replaced)
	}
	x.entries[e.Info.Digest] = e
	e.recency = x.recency.PushFront(e)
	if e.Checked.IsZero() {
		e.checks = x.checks.PushFront(e)
	} else {
		e.checks = x.checks.PushBack(e)
	}
	return replaced
}

// Adopt lists a blob that an earlier process left. If there is another of its name, one of the two
// names has a wrong content size. The earlier one is unlisted, and verifying the later one shows
// whether that was right.
func (x *Index) Adopt(e *Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used += e.Info.StoredSize
	if twin := x.add(e); twin != nil {
		x.discardFile(x.cfg.Path(twin.Info), twin.Info.StoredSize)
	}
}

// Publish runs place, which moves a file into place, and lists the blob if that succeeds. The
// file's bytes have been reserved before and stay counted.
func (x *Index) Publish(e *Entry, place func(path string) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	path := x.cfg.Path(e.Info)
	if err := place(path); err != nil {
		return err
	}
	x.used -= x.litter[path] // it was overwritten
	delete(x.litter, path)
	replaced := x.add(e)
	if replaced != nil && x.cfg.Path(replaced.Info) != path { // whose name had a wrong content size
		x.discardFile(x.cfg.Path(replaced.Info), replaced.Info.StoredSize)
	}
	return nil
}

// Remove unlists exactly this blob, if its file can be removed.
func (x *Index) Remove(e *Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.has(e) {
		return nil
	}
	if err := x.cfg.Unlink(x.cfg.Path(e.Info)); err != nil {
		return err
	}
	x.drop(e)
	return nil
}

// Discard unlists exactly this blob, whether or not its file can be removed, and reports whether it
// was listed.
func (x *Index) Discard(e *Entry) bool {
	return x.Update(e, func(*Facts) {
		x.drop(e)
		x.discardFile(x.cfg.Path(e.Info), e.Info.StoredSize)
	})
}

// Forget unlists exactly this blob, whose file is gone, and reports whether it was listed.
func (x *Index) Forget(e *Entry) bool {
	return x.Update(e, func(*Facts) { x.drop(e) })
}

func (x *Index) drop(e *Entry) {
	x.recency.Remove(e.recency)
	x.checks.Remove(e.checks)
	delete(x.entries, e.Info.Digest)
	x.used -= e.Info.StoredSize
}

// Update changes the facts of a blob, or its place in the index, if it is still there. It reports
// whether it is. The lock is held while change runs.
func (x *Index) Update(e *Entry, change func(*Facts)) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.has(e) {
		return false
	}
	change(&e.Facts)
	return true
}

// Read records a read.
func (x *Index) Read(e *Entry) {
	x.Update(e, func(*Facts) { x.recency.MoveToFront(e.recency) })
}

// Present reports whether e is still the blob of its name.
func (x *Index) Present(e *Entry) bool {
	return x.Update(e, func(*Facts) {})
}

// CheckedNow records that a blob's bytes were read, or could not be read, so that other blobs are
// checked first next time.
func (x *Index) CheckedNow(e *Entry, change func(*Facts)) {
	x.Update(e, func(known *Facts) {
		change(known)
		known.Checked = time.Now()
		x.checks.MoveToBack(e.checks)
	})
}

// Stalest returns the blob whose last check is oldest.
func (x *Index) Stalest() (*Entry, Facts, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.checks.Len() == 0 {
		return nil, Facts{}, false
	}
	e := of(x.checks.Front())
	return e, e.Facts, true
}

// Usage returns how much room the blobs take.
func (x *Index) Usage() cas.Usage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return cas.Usage{Bytes: x.used, MaxBytes: x.cfg.Limit, Blobs: len(x.entries)}
}
