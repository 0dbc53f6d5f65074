// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/faults"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
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

// TestDiskBound fills the folder of mirrors to its bound: clones end first, then fetches, and
// nothing that is there is lost.
func TestDiskBound(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": noise(100_000)})
	m := newMirrored(t, repo.URL(), gogit.Config{MirrorDisk: 200_000})
	m.fetch(t)
	used := m.Usage()
	if used.Bytes < 70_000 || used.Bytes != m.have.DiskBytes || used.Limit != 200_000 || used.Packs != 1 {
		t.Errorf("got %+v, want what was fetched: %d bytes", used, m.have.DiskBytes)
	}

	other := server.Repo(t, "other")
	other.Commit(t, "main", map[string]string{"b": noise(250_000)})
	clone := &mirrored{Git: m.Git, def: mirror.Definition{Name: "other", UID: "uid-2", Definition: upstream.Definition{URL: other.URL()}}}
	full := clone.wantFailure(t, reason.StorageFull)
	for _, words := range []string{"are needed", "of the 0.2 MiB", "gitcache-mirror-disk"} {
		if !strings.Contains(full, words) {
			t.Errorf("got %q, want it to say %q", full, words)
		}
	}
	if got := m.Usage(); got != used {
		t.Errorf("got %+v after a clone that did not fit, want %+v", got, used)
	}

	second := repo.Commit(t, "main", map[string]string{"a": "small"})
	m.fetch(t) // there is room for that
	repo.Commit(t, "main", map[string]string{"c": noise(250_000)})
	m.wantFailure(t, reason.StorageFull)
	m.files(t, first)
	if got := m.files(t, second)["a"]; got != "small" {
		t.Errorf("got %q, want what was fetched before the disk was full", got)
	}
	if left := m.leftovers(t); len(left) != 0 {
		t.Errorf("got %v left behind", left)
	}

	if err := m.Remove(t.Context(), m.def.UID); err != nil {
		t.Fatal(err)
	}
	if got := m.Usage(); got.Bytes != 0 || got.Packs != 0 {
		t.Errorf("got %+v of an empty folder", got)
	}
}

// TestStoredKnowsWhatNobodyLoaded finds mirrors of an earlier life of the replica.
func TestStoredKnowsWhatNobodyLoaded(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": noise(10_000)})
	m := newMirrored(t, repo.URL(), gogit.Config{})
	m.fetch(t)
	var err error
	if m.Git, err = gogit.New(m.cfg); err != nil {
		t.Fatal(err)
	}
	stored := m.Stored()
	if len(stored) != 1 || stored[0].UID != "uid-1" || stored[0].Bytes < m.have.DiskBytes || !stored[0].ReadAt.IsZero() {
		t.Errorf("got %+v before anything was loaded, want the mirror that is there", stored)
	}
	if _, err := m.Load(t.Context(), m.def.UID); err != nil {
		t.Fatal(err)
	}
	m.files(t, commit)
	if stored := m.Stored(); stored[0].Bytes != m.have.DiskBytes || stored[0].ReadAt.IsZero() {
		t.Errorf("got %+v, want %d bytes, read just now", stored, m.have.DiskBytes)
	}
}

// TestFullFilesystem has writing fail in the middle of a pack, with a bound or without one.
func TestFullFilesystem(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	inject := faults.New()
	m := newMirrored(t, repo.URL(), gogit.Config{Fault: inject.Check})
	inject.FailTimes("arriving", 1, syscall.ENOSPC)
	m.wantFailure(t, reason.StorageFull)
	m.fetch(t)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	inject.FailTimes("arriving", 1, syscall.ENOSPC)
	m.wantFailure(t, reason.StorageFull)
	m.files(t, first)
	if left := m.leftovers(t); len(left) != 0 {
		t.Errorf("got %v left behind", left)
	}
	m.fetch(t)
	m.fsck(t)
}

func TestTooLargeForMemorySaysWhatToDo(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	m := newMirrored(t, repo.URL(), gogit.Config{Memory: memory.NewBudget(1 << 20)})
	if said := m.wantFailure(t, reason.Internal); !strings.Contains(said, "gitcache-memory") {
		t.Errorf("got %q, want it to name the setting", said)
	}
}
