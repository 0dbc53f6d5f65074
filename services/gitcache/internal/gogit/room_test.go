// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/testkit/faults"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/memory"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// noise is a file that does not compress.
func noise(bytes int) string {
	random, b := rand.New(rand.NewPCG(3, 4)), strings.Builder{}
	for range bytes {
		b.WriteByte(byte('0' + random.IntN(64)))
	}
	return b.String()
}

// leftovers are what failed fetches and clones left on disk.
func (f *fixture) leftovers(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*/tmp-*", "*/gen-*/objects/pack/tmp_*"} {
		left, err := filepath.Glob(filepath.Join(f.dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, left...)
	}
	return found
}

// TestDiskBound fills the folder of mirrors to its bound: clones end first, then fetches, and nothing that is there is lost.
func TestDiskBound(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": noise(100_000)})
	f := newFixture(t, repo.URL())
	f.diskBytes = 200_000
	f.reopen(t)
	f.fetch(t)
	used := f.Usage()
	if used.Bytes < 70_000 || used.Bytes != f.have.DiskBytes || used.Limit != 200_000 || used.Packs != 1 {
		t.Errorf("got %+v, want what was fetched: %d bytes", used, f.have.DiskBytes)
	}

	other := server.Repo(t, "other")
	other.Commit(t, "main", map[string]string{"b": noise(250_000)})
	clone := &fixture{Git: f.Git, dir: f.dir, def: mirror.Definition{Name: "other", UID: "uid-2", URL: other.URL()}}
	full := wantReason(t, clone.try(t.Context()), mirror.ReasonStorageFull)
	for _, words := range []string{"are needed", "of the 0.2 MiB", "gitcache-mirror-disk"} {
		if !strings.Contains(full.Message, words) {
			t.Errorf("got %q, want it to say %q", full.Message, words)
		}
	}
	if got := f.Usage(); got != used {
		t.Errorf("got %+v after a clone that did not fit, want %+v", got, used)
	}

	second := repo.Commit(t, "main", map[string]string{"a": "small"})
	f.fetch(t) // there is room for that
	repo.Commit(t, "main", map[string]string{"c": noise(250_000)})
	wantReason(t, f.try(t.Context()), mirror.ReasonStorageFull)
	f.files(t, first)
	if got := f.files(t, second)["a"]; got != "small" {
		t.Errorf("got %q, want what was fetched before the disk was full", got)
	}
	if left := f.leftovers(t); len(left) != 0 {
		t.Errorf("got %v left behind", left)
	}

	if err := f.Remove(t.Context(), f.def.UID); err != nil {
		t.Fatal(err)
	}
	if got := f.Usage(); got.Bytes != 0 || got.Packs != 0 {
		t.Errorf("got %+v of an empty folder", got)
	}
}

// TestStoredKnowsWhatNobodyLoaded finds mirrors of an earlier life of the replica.
func TestStoredKnowsWhatNobodyLoaded(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": noise(10_000)})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	f.reopen(t)
	stored := f.Stored()
	if len(stored) != 1 || stored[0].UID != "uid-1" || stored[0].Bytes < f.have.DiskBytes || !stored[0].ReadAt.IsZero() {
		t.Errorf("got %+v before anything was loaded, want the mirror that is there", stored)
	}
	if _, err := f.Load(t.Context(), f.def.UID); err != nil {
		t.Fatal(err)
	}
	f.files(t, commit)
	if stored := f.Stored(); stored[0].Bytes != f.have.DiskBytes || stored[0].ReadAt.IsZero() {
		t.Errorf("got %+v, want %d bytes, read just now", stored, f.have.DiskBytes)
	}
}

// TestFullFilesystem has writing fail in the middle of a pack, with a bound or without one.
func TestFullFilesystem(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	inject := faults.New()
	f := newFixture(t, repo.URL())
	f.fault = inject.Check
	f.reopen(t)
	inject.FailTimes("arriving", 1, syscall.ENOSPC)
	wantReason(t, f.try(t.Context()), mirror.ReasonStorageFull)
	f.fetch(t)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	inject.FailTimes("arriving", 1, syscall.ENOSPC)
	wantReason(t, f.try(t.Context()), mirror.ReasonStorageFull)
	f.wantRefs(t, map[string]string{"heads/main": first})
	f.files(t, first)
	if left := f.leftovers(t); len(left) != 0 {
		t.Errorf("got %v left behind", left)
	}
	f.fetch(t)
	fsck(t, f)
}

func TestTooLargeForMemorySaysWhatToDo(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.memory = memory.NewBudget(1 << 20)
	f.reopen(t)
	refused := wantReason(t, f.try(t.Context()), mirror.ReasonInternal)
	if !strings.Contains(refused.Message, "gitcache-memory") {
		t.Errorf("got %q, want it to name the setting", refused.Message)
	}
}
