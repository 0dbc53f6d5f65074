// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

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

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	stateFile = "state.json"
	freshFile = "fresh.json"
	// maxVerified bounds how many tips are read whole when a mirror is loaded; the others are looked up in the index.
	maxVerified = 256
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
}

// freshness is what fresh.json says: a later poll that found nothing new. It is small because it is written at every one.
type freshness struct {
	FreshAt time.Time `json:"fresh_at"`
	Epoch   uint64    `json:"epoch"`
}

func (s state) content() mirror.Content {
	return mirror.Content{
		Refs: s.Refs, Head: s.Head, DefaultBranch: s.DefaultBranch,
		FreshAt: s.FreshAt, ChangedAt: s.ChangedAt, Epoch: s.Epoch, DiskBytes: s.bytes(),
	}
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

// verify makes sure that every pack is whole and every ref leads to an object.
func (s state) verify(ctx context.Context, home string) error {
	dir := filepath.Join(home, s.Generation)
	for name, size := range s.Packs {
		info, err := os.Stat(filepath.Join(dir, "objects", "pack", name))
		if err != nil {
			return fmt.Errorf("verify mirror: %w", err)
		}
		if info.Size() != size {
			return fmt.Errorf("verify mirror: %s has %d bytes, want %d", name, info.Size(), size)
		}
	}
	storage := openStorage(dir)
	defer func() { _ = storage.Close() }()
	for i, ref := range s.Refs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := storage.HasEncodedObject(plumbing.NewHash(ref.Object))
		if err == nil && i < maxVerified && ref.Commit != "" {
			_, err = object.GetCommit(storage, plumbing.NewHash(ref.Commit))
		}
		if err != nil {
			return fmt.Errorf("verify %s: %w", ref.Name, err)
		}
	}
	return nil
}

// writeAtomic makes path hold data: after a crash at any instant it holds either what it held before or all of data.
func writeAtomic(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
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

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweep removes what a crash left behind: everything but the state files and the generation to keep, and in that one
// packs that were being written.
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
		case keep, stateFile, freshFile:
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
	leftovers, err := filepath.Glob(filepath.Join(dir, "objects", "pack", temporaryPackStart+"*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
