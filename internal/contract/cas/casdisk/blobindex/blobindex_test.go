// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package blobindex_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
)

var errDisk = errors.New("disk fails")

// shelf is a folder in memory, and the index of it.
type shelf struct {
	*blobindex.Index
	pinned, stuck []string // of blobs, which are named by their content
	removed       []string // in that order
	evicted       []string
}

func newShelf(limit int64) *shelf {
	s := &shelf{}
	names := map[digest.Digest]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		names[digest.FromBytes([]byte(name))] = name
	}
	s.Index = blobindex.New(blobindex.Config{
		Limit:  limit,
		Pinned: func(d digest.Digest) bool { return slices.Contains(s.pinned, names[d]) },
		Path:   func(info cas.Info) string { return names[info.Digest] },
		Unlink: func(path string) error {
			if slices.Contains(s.stuck, path) {
				return errDisk
			}
			s.removed = append(s.removed, path)
			return nil
		},
		Evicted: func(info cas.Info) { s.evicted = append(s.evicted, names[info.Digest]) },
	})
	return s
}

// put lists a blob of that many bytes.
func (s *shelf) put(t *testing.T, name string, size int64) *blobindex.Entry {
	t.Helper()
	if err := s.Reserve(size); err != nil {
		t.Fatal(err)
	}
	e := &blobindex.Entry{Info: cas.Info{Digest: digest.FromBytes([]byte(name)), StoredSize: size}}
	if err := s.Publish(e, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEvictsWhatWasReadLongestAgo evicts as much as is needed, and nothing that is pinned or that the
// disk does not remove.
func TestEvictsWhatWasReadLongestAgo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pinned, stuck []string
		room          int64
		want          []string
		used          int64
		full          bool
	}{
		"the oldest":       {room: 20, want: []string{"b"}, used: 80},
		"two":              {room: 50, want: []string{"b", "c"}, used: 80},
		"room enough":      {room: 10, used: 100},
		"a pinned one":     {pinned: []string{"b"}, room: 20, want: []string{"c"}, used: 80},
		"a stuck one":      {stuck: []string{"b"}, room: 20, want: []string{"c"}, used: 80},
		"foreseeably full": {pinned: []string{"a", "b"}, room: 50, used: 90, full: true},
		"full when tried":  {stuck: []string{"a", "b"}, room: 50, want: []string{"c"}, used: 60, full: true},
	} {
		s := newShelf(100)
		first := s.put(t, "a", 30)
		s.put(t, "b", 30)
		s.put(t, "c", 30)
		s.Read(first)
		s.pinned, s.stuck = test.pinned, test.stuck
		if err := s.Reserve(test.room); errors.Is(err, cas.ErrFull) != test.full {
			t.Errorf("%s: got %v, want full %v", name, err, test.full)
		}
		if diff := cmp.Diff(test.want, s.evicted); diff != "" {
			t.Errorf("%s: evicted (-want +got):\n%s", name, diff)
		}
		if got := s.Usage().Bytes; got != test.used {
			t.Errorf("%s: got %d bytes used, want %d", name, got, test.used)
		}
	}
}

// TestLitterIsCounted counts a file that could not be removed until it could.
func TestLitterIsCounted(t *testing.T) {
	t.Parallel()
	s := newShelf(100)
	e := s.put(t, "a", 30)
	s.stuck = []string{"a"}
	if err := s.Remove(e); !errors.Is(err, errDisk) || !s.Present(e) {
		t.Errorf("got %v, want the disk's error and the blob still listed", err)
	}
	if !s.Discard(e) || s.Present(e) || s.Discard(e) {
		t.Error("got a blob that is not discarded exactly once")
	}
	s.Tidy()
	if got := s.Usage(); got.Bytes != 30 || got.Blobs != 0 {
		t.Errorf("got %+v, want the bytes of the litter counted", got)
	}
	s.stuck = nil
	s.Tidy()
	if got := s.Usage().Bytes; got != 0 || !slices.Equal(s.removed, []string{"a"}) {
		t.Errorf("got %d bytes used and %v removed, want the litter gone", got, s.removed)
	}
}

// TestEntriesAreIdentities changes nothing for a blob that another of its name has replaced.
func TestEntriesAreIdentities(t *testing.T) {
	t.Parallel()
	s := newShelf(100)
	before := s.put(t, "a", 30)
	after := s.put(t, "a", 20)
	if s.Forget(before) || s.Present(before) || !s.Present(after) {
		t.Error("got the replaced blob listed")
	}
	if got := s.Usage(); got.Bytes != 20 || got.Blobs != 1 {
		t.Errorf("got %+v, want the newer one alone", got)
	}
	s.put(t, "b", 10)
	s.CheckedNow(after, func(known *blobindex.Facts) { known.Verified = true })
	if e, _, ok := s.Stalest(); !ok || e == after {
		t.Error("got the blob that was checked just now as the one checked longest ago")
	}
	if _, known, ok := s.Get(after.Info.Digest); !ok || !known.Verified || known.Checked.IsZero() {
		t.Errorf("got %+v, want it verified now", known)
	}
}
