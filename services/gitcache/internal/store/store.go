// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps mirrors on disk, whichever back end fetches and reads them.
//
// A repository is <dir>/<uid>/state.json, which names a generation, and <dir>/<uid>/gen-…/, a bare
// repository that the git command can read too. The state is written last, atomically, after
// everything it names is durable.
//
// The packs of a generation never change under their names. What is fetched or copied is written to
// a [Draft]; only [Draft.Accept] makes fetched refs the mirror's.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	defaultReaders    = 8
	generationPattern = "gen-"
	temporaryPattern  = "tmp-"
	// temporaryPack begins the names of files that are being written beside packs, as it does for
	// the git command.
	temporaryPack = "tmp_"
)

// ErrForeign marks a mirror that is whole, but of a kind that this back end cannot take. It is
// kept.
var ErrForeign = errors.New("mirror is for another back end")

// Params are what a [Store] works with.
type Params struct {
	// Dir holds one folder per repository. It is made if it does not exist.
	Dir string
	// Readers bounds how many readers are open at once. Zero: 8.
	Readers int
	// Large opens a blob of the bare repository in dir that is too large to be held in memory. It
	// may be called concurrently.
	Large func(ctx context.Context, dir, id string) (content.File, error)
	// SHA256 and Partial: the back end can fetch into mirrors that name objects by SHA-256, and
	// into those that lack blobs. Mirrors that it could not go on with are left to others.
	SHA256, Partial bool

	Limits Limits
	Logger *slog.Logger
}

// Store keeps mirrors under one folder. It may be used concurrently, its drafts for different
// repositories only.
type Store struct {
	dir     string
	large   func(ctx context.Context, dir, id string) (content.File, error)
	sha256  bool
	partial bool
	logger  *slog.Logger
	readers *semaphore.Weighted
	limits  Limits

	mu        sync.Mutex
	current   map[string]string      // uid → folder of the current generation
	described map[string]mirror.File // path → what Export says of a file
	reading   map[string]int         // folder of a generation → its open readers
	retired   map[string]bool        // folders to remove once nobody reads them
	room      room
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
		dir: p.Dir, large: p.Large, sha256: p.SHA256, partial: p.Partial, logger: p.Logger, readers: semaphore.NewWeighted(int64(p.Readers)), limits: p.Limits,
		current: map[string]string{}, described: map[string]mirror.File{}, reading: map[string]int{}, retired: map[string]bool{},
		room: newRoom(),
	}
	return s, s.measure()
}

// uidForm keeps a UID from leaving the folder it names.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func (s *Store) home(uid string) (string, error) {
	if !uidForm.MatchString(uid) {
		return "", fmt.Errorf("repository uid %q cannot name a folder", uid)
	}
	return filepath.Join(s.dir, uid), nil
}

func (s *Store) generation(uid string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok := s.current[uid]
	return dir, ok
}

func (s *Store) setGeneration(uid, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == "" {
		delete(s.current, uid)
		return
	}
	s.current[uid] = dir
}

// Load implements [mirror.Storage].
func (s *Store) Load(ctx context.Context, uid string) (mirror.Content, error) {
	home, err := s.home(uid)
	if err != nil {
		return mirror.Content{}, err
	}
	st, err := readState(home)
	if errors.Is(err, os.ErrNotExist) {
		s.vacate(uid)
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, sweep(home, ""))
	}
	if err == nil {
		err = s.verify(ctx, filepath.Join(home, st.Generation), st)
	}
	if ctx.Err() != nil {
		return mirror.Content{}, context.Cause(ctx)
	}
	if errors.Is(err, ErrForeign) {
		s.logger.WarnContext(ctx, "mirror not readable by this back end", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		return mirror.Content{}, mirror.ErrNoMirror
	}
	if err != nil {
		s.logger.WarnContext(ctx, "damaged mirror dropped", slog.String("leat.repository.uid", uid), slog.Any("error", err))
		s.vacate(uid)
		return mirror.Content{}, errors.Join(mirror.ErrNoMirror, os.RemoveAll(home))
	}
	if err := sweep(home, st.Generation); err != nil {
		return mirror.Content{}, fmt.Errorf("sweep mirror: %w", err)
	}
	s.setGeneration(uid, filepath.Join(home, st.Generation))
	s.settle(uid, st)
	return st.content(), nil
}

// Remove implements [mirror.Storage].
func (s *Store) Remove(_ context.Context, uid string) error {
	home, err := s.home(uid)
	if err != nil {
		return err
	}
	s.setGeneration(uid, "")
	s.forget(home)
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("remove mirror: %w", err)
	}
	s.vacate(uid)
	return nil
}
