// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// unusedFor is how long an artifact stays that no ref delivers and that is not read.
	unusedFor = 7 * 24 * time.Hour
	// noteReads is how exactly it is known when an artifact was last read.
	noteReads = time.Hour
)

// Compact implements [mirror.Storage]. It drops artifacts that no ref delivers, and that were not
// read for a week.
func (s *Store) Compact(
	ctx context.Context, uid string, enter func(context.Context) (leave func(), err error),
) (mirror.Compaction, error) {
	started := time.Now()
	if len(s.unused(uid, started)) == 0 {
		return mirror.Compaction{}, nil
	}
	leave, err := enter(ctx)
	if err != nil {
		return mirror.Compaction{}, err
	}
	defer leave()
	unused := s.unused(uid, started)
	h, ok := s.get(uid)
	if !ok {
		return mirror.Compaction{}, mirror.ErrNoMirror
	}
	home := filepath.Join(s.params.Dir, uid)
	next := h.state.without(func(name string) bool { return unused[name] })
	if err := writeJSON(filepath.Join(home, stateFile), next); err != nil {
		return mirror.Compaction{}, err
	}
	s.set(uid, held{state: next, kept: h.kept})
	for name := range unused {
		s.drop(home, name)
	}
	return mirror.Compaction{
		PacksBefore: h.state.artifacts(), PacksAfter: next.artifacts(), BytesBefore: h.state.bytes(), BytesAfter: next.bytes(),
		Full: true, Took: time.Since(started),
	}, nil
}

// unused returns the names of artifacts that may go.
func (s *Store) unused(uid string, now time.Time) map[string]bool {
	h, ok := s.get(uid)
	if !ok {
		return nil
	}
	delivered := map[string]bool{}
	for _, ref := range h.state.Refs {
		delivered[ref.Delivered()] = true
	}
	names := map[string]bool{}
	for name := range h.state.Files {
		digest := digestIn(name)
		if digest == "" || delivered[digest] {
			continue
		}
		if info, err := os.Stat(filepath.Join(s.params.Dir, uid, name)); err == nil && now.Sub(info.ModTime()) > unusedFor {
			names[name] = true
		}
	}
	return names
}

// noteRead records that an artifact was read, across restarts.
func noteRead(f *os.File, now time.Time) {
	if info, err := f.Stat(); err == nil && now.Sub(info.ModTime()) > noteReads {
		_ = os.Chtimes(f.Name(), now, now) // it goes too early at worst, and is fetched again
	}
}
