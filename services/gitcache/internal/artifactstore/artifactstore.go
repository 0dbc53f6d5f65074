// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifactstore keeps the artifact mirrors of one replica on disk: charts and OCI artifacts,
// unpacked, with the refs that lead to them. It implements [artifact.Mirrors], [mirror.Storage] and
// [content.Opener].
//
// # Promises
//
//   - A change that a method has reported as done survives a crash. After an error, and after a crash
//     at any instant, the mirror holds what it held before.
//   - Files never change under their names, and an open reader keeps what it reads.
//   - Content is compared with its digest whenever a file of an artifact is read to its end.
//   - Bytes are written only while all mirrors take no more than Params.DiskBytes.
//
// # On disk
//
//	<dir>/<uid>/state.json   refs, and the files that count; see state
//	<dir>/<uid>/fresh.json   when a later poll found the upstream unchanged; see freshness
//	<dir>/<uid>/art-….zst    an artifact: its listing, and the content of its files; see file.go
//	<dir>/<uid>/memo-…       what the adapter noted for its next fetch
//	<dir>/<uid>/tmp-…        one of these that is being written, or an archive that is being unpacked
//
// The name of an artifact begins with its digest. An artifact is written, synced and renamed first,
// and counts once state.json names it. A crash in between leaves a file that Load removes.
//
// # Concurrency
//
// The caller lets one goroutine at a time write a mirror; readers and other mirrors are free. An artifact
// is staged without that: its temporary file is all that it touches. One lock guards the state of
// all mirrors, and is not held while the disk is read or written. The values below it are replaced,
// and never changed.
//
// The package fetches nothing and starts no goroutine.
package artifactstore

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	defaultReaders = 8
	// unpackings bounds how many artifacts are unpacked to temporary files at once. They are unpacked
	// as they arrive, so a few slow upstreams must not keep all others waiting.
	unpackings = 16
	// rememberListings bounds the listings in memory, which of the largest artifacts take some MiB.
	rememberListings = 8
	// updateShare is the share of the disk's limit that only mirrors which exist may take.
	updateShare = 0.05
)

// Params are the parts of a [Store].
type Params struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Limits bound one artifact. Zero: the defaults of bundles.
	Limits bundle.Limits
	// DiskBytes bounds the folder together with what Others returns. Zero: only the disk does.
	DiskBytes int64
	// Others returns the bytes of mirrors elsewhere that count towards DiskBytes. Nil: there are none.
	Others func() int64
	Logger *slog.Logger
}

// Store keeps artifact mirrors under one folder. It may be used concurrently, its writing methods
// for different repositories only.
type Store struct {
	params    Params
	readers   *semaphore.Weighted
	unpacking *semaphore.Weighted
	listings  *lru.Cache[string, *artifact.Listing] // by path of the artifact's file

	mu       sync.Mutex
	mirrors  map[string]held // by UID; the loaded or written ones
	stored   map[string]account
	arriving int64 // bytes that are being written
}

// held is a mirror as this process knows it. It is a value that is replaced, never changed.
type held struct {
	state state
	// kept are artifacts that count from the next change of the state on.
	kept map[string]mirror.File
}

// account is the disk space of one mirror, loaded or not.
type account struct {
	bytes  int64
	readAt time.Time
}

var (
	_ artifact.Mirrors = (*Store)(nil)
	_ mirror.Storage   = (*Store)(nil)
	_ content.Opener   = (*Store)(nil)
)

// New makes the folder for mirrors and returns a store on it.
func New(p Params) (*Store, error) {
	if p.Readers <= 0 {
		p.Readers = defaultReaders
	}
	if p.Others == nil {
		p.Others = func() int64 { return 0 }
	}
	p.Limits = p.Limits.WithDefaults()
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	listings, err := lru.New[string, *artifact.Listing](rememberListings)
	if err != nil {
		return nil, err
	}
	s := &Store{
		params: p, readers: semaphore.NewWeighted(int64(p.Readers)), unpacking: semaphore.NewWeighted(unpackings), listings: listings,
		mirrors: map[string]held{}, stored: map[string]account{},
	}
	return s, s.measure()
}

// measure opens an account for every mirror in the folder, whether or not it can be read.
func (s *Store) measure() error {
	entries, err := os.ReadDir(s.params.Dir)
	if err != nil {
		return fmt.Errorf("measure artifacts: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !mirror.IsUID(e.Name()) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(s.params.Dir, e.Name()))
		if err != nil {
			return fmt.Errorf("measure artifacts: %w", err)
		}
		var bytes int64
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				bytes += info.Size()
			}
		}
		s.stored[e.Name()] = account{bytes: bytes}
	}
	return nil
}

// Holds reports whether the folder of a mirror is here, be it readable or not.
func (s *Store) Holds(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.stored[uid]
	return ok
}

// Stored implements [mirror.Storage].
func (s *Store) Stored() []mirror.Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]mirror.Stored, 0, len(s.stored))
	for _, uid := range slices.Sorted(maps.Keys(s.stored)) {
		list = append(list, mirror.Stored{UID: uid, Bytes: s.stored[uid].bytes, ReadAt: s.stored[uid].readAt})
	}
	return list
}

// Usage implements [mirror.Storage]. The bytes are this store's alone. Artifacts are not packs,
// whose number shows whether compactions keep up.
func (s *Store) Usage() mirror.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	usage := mirror.Usage{Bytes: s.arriving, Limit: s.params.DiskBytes}
	for _, a := range s.stored {
		usage.Bytes += a.bytes
	}
	return usage
}

// get returns a mirror that was loaded or written.
func (s *Store) get(uid string) (held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.mirrors[uid]
	return h, ok
}

// set makes a mirror known.
func (s *Store) set(uid string, h held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mirrors[uid] = h
	a := s.stored[uid]
	a.bytes = h.state.bytes()
	for _, f := range h.kept {
		a.bytes += f.Size
	}
	s.stored[uid] = a
}

// forget closes the account of a mirror that is gone.
func (s *Store) forget(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mirrors, uid)
	delete(s.stored, uid)
}

// enter returns the mirror for a reader.
func (s *Store) enter(uid string) (held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.mirrors[uid]
	if a, isStored := s.stored[uid]; ok && isStored {
		a.readAt = time.Now()
		s.stored[uid] = a
	}
	return h, ok
}

// reserve asks for room for bytes that are about to be written. The caller gives it back with
// release, once the account has the bytes or they are gone. The error is a *mirror.UpstreamError.
func (s *Store) reserve(bytes int64, isNew bool) error {
	if s.params.DiskBytes == 0 {
		return nil
	}
	others, used := s.params.Others(), s.Usage().Bytes
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.params.DiskBytes
	if isNew {
		limit -= int64(updateShare * float64(limit))
	}
	if used+others+bytes > limit {
		return &mirror.UpstreamError{
			Reason: reason.StorageFull,
			Message: fmt.Sprintf("Mirrors take %d MiB of the %d MiB that they may on this replica; raise gitcache-mirror-disk, or delete "+
				"repositories that are not needed. What is mirrored is served as before.", (used+others)>>20, s.params.DiskBytes>>20),
		}
	}
	s.arriving += bytes
	return nil
}

func (s *Store) release(bytes int64) {
	if s.params.DiskBytes == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arriving -= bytes
}
