// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// receive stores a pack and returns its path.
func receive(t *testing.T, dir string, data []byte) string {
	t.Helper()
	got, err := pack.Receive(t.Context(), dir, bytes.NewReader(data), plenty{})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, got.Name+".pack")
}

// slices of a history: one pack for every n commits, with bases of deltas and whole objects twice
// in many of them.
func sliced(t *testing.T, dir, into string, options ...string) (paths []string) {
	t.Helper()
	commits := strings.Fields(git(t, dir, "", "rev-list", "--reverse", "main"))
	for i, after := 0, ""; i < len(commits); i += 10 {
		revs := commits[min(i+9, len(commits)-1)] + "\n" + after
		args := append([]string{"pack-objects", "--revs", "--stdout", "--quiet", "--no-reuse-delta"}, options...)
		paths = append(paths, receive(t, into, []byte(git(t, dir, revs, args...))))
		if i >= 10 { // overlaps with the one before
			after = "^" + commits[i-10] + "\n"
		}
	}
	return paths
}

func ids(t *testing.T, paths ...string) []string {
	t.Helper()
	var all []string
	for _, path := range paths {
		index, err := pack.ReadIndex(strings.TrimSuffix(path, ".pack") + ".idx")
		if err != nil {
			t.Fatal(err)
		}
		for i := range index.Len() {
			all = append(all, index.At(i).ID.String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func merge(t *testing.T, p pack.MergeParams) string {
	t.Helper()
	got, err := pack.Merge(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.Dir, got.Name+".pack")
	if info, err := os.Stat(path); err != nil || info.Size() != got.Bytes {
		t.Errorf("got %d bytes in a file of %v (%v), want the same", got.Bytes, info, err)
	}
	if err := pack.Verify(t.Context(), path); err != nil {
		t.Error(err)
	}
	git(t, p.Dir, "", "verify-pack", path) // inflates everything
	wantGitsIndex(t, p.Dir, got.Name)
	return path
}

func TestMergeHoldsEverythingOnce(t *testing.T) {
	t.Parallel()
	dir := history(t, 100)
	for name, options := range map[string][]string{
		"offset deltas": {"--delta-base-offset", "--depth=50"}, "reference deltas": {"--depth=50"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := t.TempDir()
			packs := sliced(t, dir, from, options...)
			slices.Reverse(packs)
			into := t.TempDir()
			merged := merge(t, pack.MergeParams{Packs: packs, Dir: into})
			if diff := cmp.Diff(ids(t, packs...), ids(t, merged)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			again := merge(t, pack.MergeParams{Packs: []string{merged}, Dir: t.TempDir()})
			if filepath.Base(again) != filepath.Base(merged) {
				t.Errorf("got %s of one pack alone, want the same pack %s", again, merged)
			}
		})
	}
}

func TestMergeKeepsWhatIsKeptAndItsBases(t *testing.T) {
	t.Parallel()
	dir := history(t, 60)
	for name, options := range map[string][]string{
		"offset deltas": {"--delta-base-offset", "--depth=50"}, "reference deltas": {"--depth=50"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := receive(t, t.TempDir(), packed(t, dir, options...))
			keep := strings.Fields(git(t, dir, "main~40\n", "rev-list", "--objects", "--no-object-names", "--stdin"))
			slices.Sort(keep)
			merged := merge(t, pack.MergeParams{Packs: []string{path}, Dir: t.TempDir(), Keep: func(id pack.ID) bool {
				_, ok := slices.BinarySearch(keep, id.String())
				return ok
			}})
			got := ids(t, merged)
			for _, id := range keep {
				if _, ok := slices.BinarySearch(got, id); !ok {
					t.Errorf("object %s is gone", id)
				}
			}
			if all := ids(t, path); len(got) >= len(all) {
				t.Errorf("got %d objects of %d, want fewer", len(got), len(all))
			}
		})
	}
}

func TestMergeOfNothing(t *testing.T) {
	t.Parallel()
	path := receive(t, t.TempDir(), packed(t, history(t, 2)))
	into := t.TempDir()
	_, err := pack.Merge(t.Context(), pack.MergeParams{Packs: []string{path}, Dir: into, Keep: func(pack.ID) bool { return false }})
	if !errors.Is(err, pack.ErrEmpty) {
		t.Errorf("got %v, want %v", err, pack.ErrEmpty)
	}
	wantEmpty(t, into)
}

func TestDamageIsNotMerged(t *testing.T) {
	t.Parallel()
	data := packed(t, history(t, 5), "--delta-base-offset")
	for _, ending := range []string{".pack", ".idx"} {
		path := receive(t, t.TempDir(), data)
		damaged := strings.TrimSuffix(path, ".pack") + ending
		whole, err := os.ReadFile(damaged)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{len(whole) / 3, len(whole) / 2, len(whole) - 30} {
			bad := bytes.Clone(whole)
			bad[at] ^= 1
			if err := os.WriteFile(damaged, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			name, into := ending+" at "+strconv.Itoa(at), t.TempDir()
			if _, err := pack.Merge(t.Context(), pack.MergeParams{Packs: []string{path}, Dir: into}); !errors.Is(err, pack.ErrMalformed) {
				t.Errorf("%s: got %v, want %v", name, err, pack.ErrMalformed)
			}
			wantEmpty(t, into)
			if err := pack.Verify(t.Context(), path); !errors.Is(err, pack.ErrMalformed) {
				t.Errorf("%s: got %v of Verify, want %v", name, err, pack.ErrMalformed)
			}
		}
	}
}

func TestMergeEndsWithTheContext(t *testing.T) {
	t.Parallel()
	path := receive(t, t.TempDir(), packed(t, history(t, 5)))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	into := t.TempDir()
	if _, err := pack.Merge(ctx, pack.MergeParams{Packs: []string{path}, Dir: into}); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}
	wantEmpty(t, into)
}
