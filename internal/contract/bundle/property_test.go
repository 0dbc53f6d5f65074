// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/contract/bundle"
)

// folder draws the content of a folder, in no particular order: names from a small alphabet around
// "/", so that they share stems and sort in surprising ways, some of them long or not ASCII.
func folder() *rapid.Generator[[]item] {
	element := rapid.StringMatching(`[a-c.\-0ü]{1,3}|[x]{60,110}`).Filter(func(s string) bool { return s != "." && s != ".." })
	name := rapid.Map(rapid.SliceOfN(element, 1, 5), func(parts []string) string { return strings.Join(parts, "/") })
	one := rapid.Custom(func(t *rapid.T) item {
		i := item{name: name.Draw(t, "name")}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			i.target = strings.Repeat("../", rapid.IntRange(0, strings.Count(i.name, "/")).Draw(t, "up")) + name.Draw(t, "target")
			return i
		}
		i.exec = rapid.Bool().Draw(t, "executable")
		i.content = strings.Repeat("y", rapid.SampledFrom([]int{0, 1, 511, 512, 513, 1500}).Draw(t, "size"))
		return i
	})
	return rapid.Map(rapid.SliceOfN(one, 0, 12), withoutConflicts)
}

// withoutConflicts drops entries that cannot be in one folder together, with the simplest possible
// algorithm.
func withoutConflicts(items []item) []item {
	var kept []item
	for _, candidate := range items {
		clash := slices.ContainsFunc(kept, func(other item) bool {
			return candidate.name == other.name || strings.HasPrefix(candidate.name, other.name+"/") ||
				strings.HasPrefix(other.name, candidate.name+"/")
		})
		if !clash {
			kept = append(kept, candidate)
		}
	}
	return kept
}

func sorted(items []item) []item {
	return slices.SortedFunc(slices.Values(items), func(a, b item) int { return cmp.Compare(a.name, b.name) })
}

func TestWrittenIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		items := folder().Draw(rt, "folder")
		tarred := write(t, sorted(items)...)
		back, err := read(bytes.NewReader(tarred), bundle.Limits{})
		if err != nil {
			rt.Fatalf("read: %v", err)
		}
		if diff := gocmp.Diff(sorted(items), back, gocmp.AllowUnexported(item{})); len(items) > 0 && diff != "" {
			rt.Fatalf("read back (-want +got):\n%s", diff)
		}
		shuffled := rapid.Permutation(items).Draw(rt, "shuffled")
		if again := write(t, sorted(shuffled)...); !bytes.Equal(tarred, again) {
			rt.Fatal("another order of the same files made other bytes")
		}
	})
}

// TestConflictsAreFound compares the writer's small state with the simple algorithm.
func TestConflictsAreFound(t *testing.T) {
	t.Parallel()
	element := rapid.StringMatching(`[ab.\-0]`).Filter(func(s string) bool { return s != "." })
	name := rapid.Map(rapid.SliceOfN(element, 1, 4), func(parts []string) string { return strings.Join(parts, "/") })
	rapid.Check(t, func(rt *rapid.T) {
		var items []item
		for _, n := range rapid.SliceOfNDistinct(name, 0, 10, rapid.ID).Draw(rt, "names") {
			items = append(items, item{name: n})
		}
		possible := len(withoutConflicts(items)) == len(items)
		err := writeTo(&bytes.Buffer{}, bundle.Limits{}, sorted(items)...)
		if possible != (err == nil) || (err != nil && !errors.Is(err, bundle.ErrMalformed)) {
			rt.Fatalf("got %v, want success %t", err, possible)
		}
	})
}

// FuzzReader looks for bytes that the reader accepts and the writer would not have written, and for
// panics.
func FuzzReader(f *testing.F) {
	for _, test := range tricky() {
		f.Add(write(f, test.items...))
	}
	limits := bundle.Limits{Bytes: 1 << 20, Files: 100, FileBytes: 1 << 16}
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := read(bytes.NewReader(data), limits)
		if err != nil {
			if !errors.Is(err, bundle.ErrMalformed) && !errors.Is(err, bundle.ErrTooLarge) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		if again := write(t, items...); !bytes.Equal(again, data) {
			t.Fatalf("accepted %d bytes that are not the canonical form of their %d entries", len(data), len(items))
		}
	})
}

// FuzzDecompress looks for panics and for more output than allowed.
func FuzzDecompress(f *testing.F) {
	f.Add(compress(f, []byte("hello")))
	f.Add(compress(f, bytes.Repeat([]byte{0}, 1<<16)))
	f.Add([]byte{})
	const limit = 1 << 15
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decompress(bytes.NewReader(data), limit)
		if len(got) > limit {
			t.Fatalf("got %d bytes, want at most %d", len(got), limit)
		}
		if err != nil && !errors.Is(err, bundle.ErrMalformed) && !errors.Is(err, bundle.ErrTooLarge) {
			t.Fatalf("untyped error: %v", err)
		}
	})
}
