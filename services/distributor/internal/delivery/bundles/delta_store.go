// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/scratch"
)

const (
	defaultDeltaBytes = 512 << 20
	// maxDeltas bounds how many deltas there are, and how many pairs are known to have none.
	maxDeltas = 10_000
)

// Delta is a delta that is open for reading: a zstd stream from its first byte. It stays readable
// after its eviction.
type Delta struct {
	*os.File

	// Tag is its ETag, made of its bytes.
	Tag string
	// Size is its length; Full is the length of the bundle it leads to, compressed, which is larger.
	Size, Full int64
}

// pair is where a delta leads from and to.
type pair struct {
	from, to digest.Digest
}

// Name returns the name of a delta's file.
func (p pair) Name() string { return p.from.Hex() + "-" + p.to.Hex() }

// errNotSmaller ends the building of a delta that is not smaller than the bundle.
var errNotSmaller = errors.New("delta is not smaller than the bundle")

// deltaStore keeps deltas as files, and remembers which pairs have no delta.
type deltaStore struct {
	files *scratch.Folder[pair, Delta]
	// declined is until when a pair has no delta. Zero: permanently.
	declined *lru.Cache[pair, time.Time]
}

// openDeltaStore empties the folder.
func openDeltaStore(dir string, maxBytes int64) (*deltaStore, error) {
	declined, _ := lru.New[pair, time.Time](maxDeltas) // fails only for a limit that is not positive
	files, err := scratch.Open[pair, Delta](dir, cmp.Or(max(maxBytes, 0), defaultDeltaBytes), maxDeltas)
	return &deltaStore{files: files, declined: declined}, err
}

// open opens a delta. isKnown reports whether the pair need not be tried: there is a delta, or it
// is known that there is none.
func (s *deltaStore) open(p pair) (delta *Delta, isKnown bool) {
	file, _, found, err := s.files.Open(p)
	if err == nil {
		found.File = file
		return &found, true
	}
	if until, isDeclined := s.declined.Get(p); isDeclined && (until.IsZero() || !time.Now().After(until)) {
		return nil, true
	}
	return nil, !errors.Is(err, cas.ErrNotFound) // without a file descriptor there is no delta for now
}

// put moves a complete file to its place and makes room for it.
func (s *deltaStore) put(p pair, file *os.File, delta Delta) error {
	err := s.files.Put(p, file.Name(), delta.Size, delta, 0)
	if errors.Is(err, cas.ErrFull) {
		return errNotSmaller
	}
	if err != nil {
		return fmt.Errorf("store delta: %w", err)
	}
	s.declined.Remove(p)
	_ = file.Close() // everything has been written, and nothing is promised about a crash
	return nil
}

// decline remembers that there is no delta, until then.
func (s *deltaStore) decline(p pair, until time.Time) { s.declined.Add(p, until) }
