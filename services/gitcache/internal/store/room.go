// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// Limits bound what mirrors take. The zero value bounds nothing.
type Limits struct {
	// Memory admits compactions. Nil: all are.
	Memory pack.Memory
	// DiskBytes bounds the folder of mirrors. Zero: only the disk does.
	DiskBytes int64
	// Fault is called between the steps of a compaction and, as "arriving", whenever a piece of a
	// pack comes, so that tests can break off there. Nil: nothing is called.
	Fault func(step string) error
}

func (l Limits) fault(step string) error {
	if l.Fault == nil {
		return nil
	}
	return l.Fault(step)
}

// reserve is the share of the disk that is left to mirrors which exist: news of theirs go before
// new ones.
const reserve = 0.05

// room is what mirrors take of the disk. Who has the lock of the store may use it.
type room struct {
	used     map[string]int64 // uid → bytes of the current generation
	packs    map[string]int   // uid → packs of it
	read     map[string]time.Time
	total    int64 // of all in used
	arriving int64 // bytes that are being written
}

func newRoom() room {
	return room{used: map[string]int64{}, packs: map[string]int{}, read: map[string]time.Time{}}
}

func (r *room) sum() int64 { return r.total + r.arriving }

func (r *room) set(uid string, bytes int64) {
	r.total += bytes - r.used[uid]
	r.used[uid] = bytes
}

// measure counts what is on the disk before anything is loaded.
func (s *Store) measure() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("measure mirrors: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !uidForm.MatchString(e.Name()) {
			continue
		}
		bytes, err := size(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return fmt.Errorf("measure mirrors: %w", err)
		}
		s.room.set(e.Name(), bytes)
	}
	return nil
}

// size is how many bytes the files below a folder have. What vanishes meanwhile has none.
func size(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return gone(err)
		}
		info, err := e.Info()
		if err != nil {
			return gone(err)
		}
		sum += info.Size()
		return nil
	})
	return sum, err
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// settle notes what a mirror takes from now on.
func (s *Store) settle(uid string, st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.set(uid, st.bytes())
	s.room.packs[uid] = st.packs()
}

func (s *Store) vacate(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.set(uid, 0)
	delete(s.room.used, uid)
	delete(s.room.packs, uid)
	delete(s.room.read, uid)
}

// take asks for room for what is about to be written. The error is an [*mirror.UpstreamError].
func (s *Store) take(bytes int64, clone bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits.DiskBytes
	if clone {
		limit -= int64(reserve * float64(limit))
	}
	if used := s.room.sum(); s.limits.DiskBytes > 0 && used+bytes > limit {
		return &mirror.UpstreamError{
			Reason: reason.StorageFull,
			Message: fmt.Sprintf("Mirrors take %s of the %s that they may on this replica; raise gitcache-mirror-disk, "+
				"or delete repositories that are not needed. What is mirrored is served as before.",
				humane(used), humane(s.limits.DiskBytes)),
		}
	}
	s.room.arriving += bytes
	return nil
}

// humane is for sentences.
func humane(bytes int64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

func (s *Store) giveBack(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.arriving -= bytes
}

// Limit returns a reader of what r holds that ends with an error where the disk has no room for it.
func (d *Draft) Limit(r io.Reader) io.Reader { return &limited{draft: d, below: r} }

type limited struct {
	draft *Draft
	below io.Reader
	full  error
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.full != nil {
		return 0, l.full
	}
	n, err := l.below.Read(p)
	if l.full = l.draft.draw(int64(n)); l.full != nil {
		return 0, l.full
	}
	return n, err
}

// draw asks for room that is given back when the draft is closed: from then on what it became
// counts.
func (d *Draft) draw(bytes int64) error {
	if err := d.store.limits.fault("arriving"); err != nil {
		return err
	}
	err := d.store.take(bytes, d.previous == "")
	if full, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		full.Message = fmt.Sprintf("More than %s are needed. %s", humane(d.taken+bytes), full.Message)
		return full
	}
	d.taken += bytes
	return nil
}

// Stored implements [mirror.Storage].
func (s *Store) Stored() []mirror.Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := make([]mirror.Stored, 0, len(s.room.used))
	for _, uid := range slices.Sorted(maps.Keys(s.room.used)) {
		stored = append(stored, mirror.Stored{UID: uid, Bytes: s.room.used[uid], ReadAt: s.room.read[uid]})
	}
	return stored
}

// Usage implements [mirror.Storage].
func (s *Store) Usage() mirror.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := mirror.Usage{Bytes: s.room.sum(), Limit: s.limits.DiskBytes}
	for _, packs := range s.room.packs {
		u.Packs += packs
	}
	return u
}

// admit waits for memory.
func (s *Store) admit(ctx context.Context, bytes int64) (release func(), err error) {
	if s.limits.Memory == nil {
		return func() {}, nil
	}
	return s.limits.Memory.Acquire(ctx, bytes)
}

// hold keeps a folder from being removed as one that nobody needs.
func (s *Store) hold(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading[dir]++
}
