// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps the mirrors of one replica on disk, for any back end that fetches and reads
// them. It implements [mirror.Storage] and [content.Opener].
//
// # Promises
//
//   - A mirror that Load returns can be read: every pack is whole, and every ref leads to an object.
//   - A change that a method has reported as done survives a crash. After an error, and after a
//     crash at any instant, the mirror holds what it held before.
//   - The generation that a reader of Open reads stays on disk until the reader is closed.
//   - Bytes are received only while all mirrors, including bytes that are being received, take no more than
//     Limits.DiskBytes. Indexes count once their packs are committed, and retired generations that
//     are still read do not count.
//
// # On disk
//
//	<dir>/<uid>/state.json     the current generation by name, its refs and packs; see state
//	<dir>/<uid>/fresh.json     when a later poll found the upstream unchanged; see freshness
//	<dir>/<uid>/examined.json  when Compact last looked for unreachable objects; see examination
//	<dir>/<uid>/gen-…/         a generation: a bare repository that the git command can read, too
//	<dir>/<uid>/tmp-…          a new generation, or one of the files above, that is being written
//
// A generation is temporary (tmp-…) while a [Draft] writes it, becomes lasting (gen-…) when the
// draft is committed, and current when state.json names it. It is retired when another one has
// become current, and is removed with its last user.
//
// Packs never change under their names. A draft adds packs to the current generation or fills a new
// one; nothing in it counts before its commit. A commit syncs the packs, writes packed-refs and
// HEAD for other tools, gives a new generation its lasting name, and last replaces state.json. A
// crash before that last step leaves the old state, which names only existing packs. Load removes
// the rest.
//
// # Concurrency
//
// The caller lets one goroutine at a time write a mirror, see mirror.Storage; readers and other
// mirrors are free. Compact is the exception: it builds its draft beside such a writer, and
// excludes writers only for the commit.
//
// Three parts of a [Store] have a lock each: generations, disk and descriptions. None is held
// during another's, or while the disk is read or written, so there is no lock order. Two invariants
// span parts, by the order of calls alone:
//
//   - A mirror with a current generation has an account: the account is opened before the generation
//     becomes current, and closed after it was dropped.
//   - A folder that is being removed has no current user: its removal is decided under the lock of
//     generations, where users enter, and a retired generation is never entered.
//
// The package fetches nothing, decides nothing about signatures, and starts no goroutine.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const defaultReaders = 8

// ErrForeign marks a mirror that is whole, but of a kind that this back end cannot take. It is
// kept.
var ErrForeign = errors.New("mirror is for another back end")

// Params are the parts of a [Store].
type Params struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Large opens a blob of the bare repository in dir that is too large to be held in memory. It
	// may be called concurrently.
	Large func(ctx context.Context, dir, id string) (content.File, error)
	// SHA256 and Partial: the back end can fetch into mirrors that name objects by SHA-256, and into
	// mirrors that lack blobs. Mirrors that it could not continue with are left to others.
	SHA256, Partial bool

	Limits Limits
	Logger *slog.Logger
}

// Limits bound what mirrors take. The zero value bounds nothing.
type Limits struct {
	// Memory admits compactions. Nil: all are.
	Memory pack.Memory
	// DiskBytes bounds the folder of mirrors, together with what Others returns. Zero: only the disk
	// does.
	DiskBytes int64
	// Others returns the bytes of mirrors elsewhere that count towards DiskBytes. It may be called
	// concurrently. Nil: there are none.
	Others func() int64
	// Fault is called between the steps of a compaction and, as "arriving", whenever a piece of a
	// pack arrives, so that tests can make a step fail. Nil: nothing is called.
	Fault func(step string) error
}

func (l Limits) fault(step string) error {
	if l.Fault == nil {
		return nil
	}
	return l.Fault(step)
}

// acquire blocks until that much memory may be used.
func (l Limits) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if l.Memory == nil {
		return func() {}, nil
	}
	return l.Memory.Acquire(ctx, bytes)
}

// Store keeps mirrors under one folder. It may be used concurrently, its drafts for different
// repositories only.
type Store struct {
	params       Params
	readers      *semaphore.Weighted
	generations  *generations
	disk         *disk
	descriptions descriptions
}

var (
	_ mirror.Storage = (*Store)(nil)
	_ content.Opener = (*Store)(nil)
)

// New makes the folder for mirrors and returns a store on it.
func New(p Params) (*Store, error) {
	if p.Readers <= 0 {
		p.Readers = defaultReaders
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make mirror folder: %w", err)
	}
	s := &Store{
		params: p, readers: semaphore.NewWeighted(int64(p.Readers)),
		generations: newGenerations(), disk: newDisk(p.Limits.DiskBytes, p.Limits.Others),
	}
	if err := s.disk.measure(p.Dir); err != nil {
		return nil, fmt.Errorf("measure mirrors: %w", err)
	}
	return s, nil
}

// Stored implements [mirror.Storage].
func (s *Store) Stored() []mirror.Stored { return s.disk.list() }

// Usage implements [mirror.Storage].
func (s *Store) Usage() mirror.Usage { return s.disk.usage() }

// makeCurrent makes a generation the one that readers open.
func (s *Store) makeCurrent(uid, dir string, st state) {
	s.disk.set(uid, st.bytes(), st.packs())
	s.generations.set(uid, dir)
}

// retire removes the generations of a mirror that are not needed any more: all but those to keep.
// One that is in use goes with its last user.
func (s *Store) retire(ctx context.Context, home string, keep ...string) {
	entries, err := os.ReadDir(home)
	if err != nil {
		s.params.Logger.WarnContext(ctx, "old generations not removed", slog.Any("error", err))
	}
	for _, e := range entries {
		dir := filepath.Join(home, e.Name())
		if e.IsDir() && !slices.Contains(keep, dir) && s.generations.retire(dir) {
			s.removeGeneration(ctx, dir)
		}
	}
}

// leave ends one use of a generation, and removes the generation if it was the last use of a
// retired one.
func (s *Store) leave(ctx context.Context, dir string) {
	if s.generations.leave(dir) {
		s.removeGeneration(ctx, dir)
	}
}

// removeGeneration frees the room. A remaining folder is swept when the mirror is loaded next.
func (s *Store) removeGeneration(ctx context.Context, dir string) {
	s.descriptions.forget(dir)
	if err := os.RemoveAll(dir); err != nil {
		s.params.Logger.WarnContext(ctx, "old generation not removed", slog.Any("error", err))
	}
}
