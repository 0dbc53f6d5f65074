// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	stateFile = "state.json"
	freshFile = "fresh.json"
)

// state is what state.json says: the mirror as of its last fetch that moved refs.
type state struct {
	Generation    string           `json:"generation"`
	Refs          mirror.Refs      `json:"refs"`
	Head          string           `json:"head,omitempty"`
	DefaultBranch string           `json:"default_branch,omitempty"`
	FreshAt       time.Time        `json:"fresh_at"`
	ChangedAt     time.Time        `json:"changed_at"`
	Epoch         uint64           `json:"epoch"`
	Packs         map[string]int64 `json:"packs"` // name → bytes of every pack and index
	// Policy is by what Refs were judged: a replica with another one does so again before it
	// delivers any.
	Policy string `json:"policy,omitempty"`
	// Partial: the generation may lack blobs. FilledAt is when some were last added.
	Partial  bool      `json:"partial,omitempty"`
	FilledAt time.Time `json:"filled_at,omitzero"`
}

// freshness is what fresh.json says: a later poll that found nothing new. It is small because it is
// written at every one.
type freshness struct {
	FreshAt time.Time `json:"fresh_at"`
	Epoch   uint64    `json:"epoch"`
}

func (s state) content() mirror.Content {
	return mirror.Content{
		Refs: s.Refs, Head: s.Head, DefaultBranch: s.DefaultBranch,
		FreshAt: s.FreshAt, ChangedAt: s.ChangedAt, Epoch: s.Epoch, DiskBytes: s.bytes(), Packs: s.packs(), Policy: s.Policy,
		Partial: s.Partial, FilledAt: s.FilledAt,
	}
}

// packs counts them; each has an index beside it.
func (s state) packs() int {
	n := 0
	for name := range s.Packs {
		if strings.HasSuffix(name, ".pack") {
			n++
		}
	}
	return n
}

func (s state) bytes() int64 {
	var sum int64
	for _, size := range s.Packs {
		sum += size
	}
	return sum
}

func readState(home string) (state, error) {
	var s state
	if err := readJSON(filepath.Join(home, stateFile), &s); err != nil {
		return state{}, err
	}
	var f freshness
	if err := readJSON(filepath.Join(home, freshFile), &f); err == nil && f.FreshAt.After(s.FreshAt) {
		s.FreshAt, s.Epoch = f.FreshAt, f.Epoch
	}
	if !strings.HasPrefix(s.Generation, generationPattern) || s.Generation != filepath.Base(s.Generation) {
		return state{}, fmt.Errorf("read mirror state: generation %q", s.Generation)
	}
	return s, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read mirror state: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read mirror state: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write mirror state: %w", err)
	}
	if err := writeAtomic(path, data); err != nil {
		return fmt.Errorf("write mirror state: %w", err)
	}
	return nil
}

// verify makes sure that every pack is whole and every ref leads to an object.
func (s *Store) verify(ctx context.Context, dir string, st state) error {
	if st.Partial && !s.partial {
		return fmt.Errorf("verify mirror: it is partial: %w", ErrForeign)
	}
	for name, size := range st.Packs {
		info, err := os.Stat(filepath.Join(packFolder(dir), name))
		if err != nil {
			return fmt.Errorf("verify mirror: %w", err)
		}
		if info.Size() != size {
			return fmt.Errorf("verify mirror: %s has %d bytes, want %d", name, info.Size(), size)
		}
	}
	return s.verifyRefs(ctx, dir, allRefs(st.Refs))
}

// maxVerified bounds how many tips are read whole when a mirror is loaded. The others are looked up
// in the index.
const maxVerified = 256

// verifyRefs makes sure that every ref leads to an object that can be read.
func (s *Store) verifyRefs(ctx context.Context, dir string, refs mirror.Refs) error {
	objects, err := s.Objects(dir)
	if err != nil {
		return fmt.Errorf("verify mirror: %w", err)
	}
	defer func() { _ = objects.Close() }()
	for i, ref := range refs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(ref.Object) == digitsSHA256 && !s.sha256 {
			return fmt.Errorf("verify %s: SHA-256 object names: %w", ref.Name, ErrForeign)
		}
		kind, err := objects.Kind(ref.Object)
		if err == nil && kind == "" {
			err = content.ErrDamaged
		}
		if err == nil && i < maxVerified && ref.Commit != "" {
			_, err = objects.Commit(ctx, ref.Commit)
		}
		if err != nil {
			return fmt.Errorf("verify %s: %w", ref.Name, err)
		}
	}
	return nil
}

// Unchanged keeps only that the mirror was found equal to the upstream. It asks the guard first.
func (s *Store) Unchanged(p mirror.FetchParams) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	c := p.Have
	c.FreshAt, c.Epoch = time.Now(), p.Epoch
	return c, s.writeFreshness(p.Definition.UID, c)
}

// Confirm implements [mirror.Storage].
func (s *Store) Confirm(_ context.Context, uid string, c mirror.Content) error {
	return s.writeFreshness(uid, c)
}

func (s *Store) writeFreshness(uid string, c mirror.Content) error {
	home, err := s.home(uid)
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(home, freshFile), freshness{FreshAt: c.FreshAt, Epoch: c.Epoch})
}

// sweep removes what a crash left behind: everything but the state files and the generation to
// keep, and in that one packs that were being written.
func sweep(home, keep string) error {
	entries, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case keep, stateFile, freshFile, examinedFile:
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(home, e.Name())))
	}
	if keep == "" {
		return err
	}
	return errors.Join(err, sweepPacks(filepath.Join(home, keep)))
}

func sweepPacks(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(packFolder(dir), temporaryPack+"*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
