// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/faults"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// many is more packs than a mirror keeps.
const many = 24

// alone is for mirrors that nobody else writes.
func alone(context.Context) (func(), error) { return func() {}, nil }

// fetchTimes makes commits and fetches each of them by itself; it returns the last.
func (f *fixture) fetchTimes(t *testing.T, repo *gittest.Repo, times int) (last string) {
	t.Helper()
	for i := range times {
		last = repo.Commit(t, "main", map[string]string{"d/f" + strconv.Itoa(i%5): fmt.Sprintf("%d\n%s", i, strings.Repeat("line\n", 50))})
		f.fetch(t)
	}
	return last
}

func (f *fixture) packs(t *testing.T) []string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*", "objects", "pack", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	return packs
}

func (f *fixture) compact(t *testing.T) mirror.Compaction {
	t.Helper()
	done, err := f.Compact(t.Context(), f.def.UID, alone)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestManyPacksBecomeFew(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	first := repo.Commit(t, "main", map[string]string{"large": large()})
	f.fetch(t)
	original := f.packs(t)[0]
	if done := f.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v of a mirror with one pack, want nothing done", done)
	}
	last := f.fetchTimes(t, repo, many)
	reader, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	before := f.files(t, last)

	done := f.compact(t)
	if done.PacksBefore != many+1 || done.PacksAfter != 2 || done.Full || done.BytesAfter >= done.BytesBefore {
		t.Errorf("got %+v, want a large pack and one more of %d", done, many+1)
	}
	if _, err := reader.Tree(t.Context(), first, ""); err != nil {
		t.Errorf("got %v from a reader of the old generation", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	packs := f.packs(t)
	if len(packs) != 2 {
		t.Errorf("got packs %v, want two once nobody reads the old ones", packs)
	}
	if linked := filepath.Join(filepath.Dir(packs[0]), filepath.Base(original)); !exists(linked) {
		t.Errorf("got packs %v, want the large one %s still there", packs, linked)
	}
	if diff := cmp.Diff(before, f.files(t, last)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	fsck(t, f)
	if usage := f.Usage(); usage.Packs != 2 || usage.Bytes != done.BytesAfter {
		t.Errorf("got %+v, want what is there now: %+v", usage, done)
	}

	f.reopen(t)
	loaded, err := f.Load(t.Context(), f.def.UID)
	if err != nil || loaded.Fingerprint() != f.have.Fingerprint() || !loaded.FreshAt.Equal(f.have.FreshAt) || loaded.Epoch != f.have.Epoch {
		t.Errorf("got %+v (%v) after a restart, want %+v", loaded, err, f.have)
	}
	f.fetchTimes(t, repo, 1) // goes on in the new generation
	fsck(t, f)
}

// large is a file that makes its pack larger than many small ones together.
func large() string {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(strconv.Itoa(i*i*7919) + "\n")
	}
	return b.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestFetchDuringCompaction fetches while packs are being merged: what it brought is in the new generation too.
func TestFetchDuringCompaction(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	f.fetchTimes(t, repo, many)
	var news string
	f.fault = func(step string) error {
		if step == "merged" {
			news = f.fetchTimes(t, repo, 1)
		}
		return nil
	}
	f.reopen(t)
	if _, err := f.Load(t.Context(), f.def.UID); err != nil {
		t.Fatal(err)
	}
	if done := f.compact(t); done.PacksAfter != 2 {
		t.Errorf("got %+v, want the merged pack and the one that came", done)
	}
	if got := f.files(t, news); len(got) == 0 {
		t.Error("got nothing of what was fetched during the compaction")
	}
	fsck(t, f)
}

// TestFailedCompactionChangesNothing fails at each step once.
func TestFailedCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	last := f.fetchTimes(t, repo, many)
	inject := faults.New()
	f.fault = inject.Check
	f.reopen(t)
	if _, err := f.Load(t.Context(), f.def.UID); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"linked", "merged", "verified"} {
		inject.FailTimes(step, 1, syscall.ENOSPC)
		if _, err := f.Compact(t.Context(), f.def.UID, alone); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: got %v, want a full disk", step, err)
		}
		if got := len(f.packs(t)); got != many {
			t.Errorf("%s: got %d packs, want %d as before", step, got, many)
		}
		if left, _ := filepath.Glob(filepath.Join(f.dir, f.def.UID, "tmp-*")); len(left) != 0 {
			t.Errorf("%s: got %v left behind", step, left)
		}
		f.files(t, last)
	}
	gone := errors.New("shutting down")
	if _, err := f.Compact(t.Context(), f.def.UID, func(context.Context) (func(), error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v, want that the mirror could not be entered", err)
	}
	if done := f.compact(t); done.PacksAfter != 1 {
		t.Errorf("got %+v, want one pack in the end", done)
	}
	fsck(t, f)
}

const killEnvironment = "LEAT_TEST_COMPACT_AND_DIE"

// TestKilledCompactionLeavesAWholeMirror kills a process with SIGKILL between any two steps of a compaction.
func TestKilledCompactionLeavesAWholeMirror(t *testing.T) {
	if spec := os.Getenv(killEnvironment); spec != "" {
		dir, step, _ := strings.Cut(spec, "|")
		compactAndDie(t, dir, step)
		return
	}
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	last := f.fetchTimes(t, repo, many)
	want := f.files(t, last)
	for _, step := range []string{"linked", "merged", "verified", "switched"} {
		copied := newFixture(t, repo.URL())
		if err := os.CopyFS(copied.dir, os.DirFS(f.dir)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killEnvironment+"="+copied.dir+"|"+step)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: got %v, want a killed process\n%s", step, err, out)
		}
		copied.reopen(t)
		if copied.have, err = copied.Load(t.Context(), copied.def.UID); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if diff := cmp.Diff(want, copied.files(t, last)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", step, diff)
		}
		fsck(t, copied)
		copied.compact(t)
		if got := len(copied.packs(t)); got != 1 {
			t.Errorf("%s: got %d packs after the next compaction, want 1", step, got)
		}
	}
}

func compactAndDie(t *testing.T, dir, step string) {
	t.Helper()
	g, err := gogit.New(gogit.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler), Fault: func(at string) error {
		if at == step {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Load(t.Context(), "uid-1"); err != nil {
		t.Fatal(err)
	}
	_, err = g.Compact(t.Context(), "uid-1", alone)
	t.Fatalf("got %v, want to be killed", err)
}

// aWeekPasses makes the last look for what no ref reaches one of a week ago.
func (f *fixture) aWeekPasses(t *testing.T) {
	t.Helper()
	path := filepath.Join(f.dir, f.def.UID, "examined.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var examined map[string]any
	if err := json.Unmarshal(data, &examined); err != nil {
		t.Fatal(err)
	}
	examined["at"] = time.Now().Add(-8 * 24 * time.Hour)
	if data, err = json.Marshal(examined); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestUnreachableGoesAfterTwoLooks force-pushes most of a repository away.
func TestUnreachableGoesAfterTwoLooks(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	f := newFixture(t, repo.URL())
	lost := f.fetchTimes(t, repo, 10)
	f.compact(t) // the first look only remembers
	forced := repo.ForcePush(t, "main", map[string]gittest.File{"other": gittest.Text("1")})
	repo.AnnotatedTag(t, "v1", forced)
	f.fetch(t)

	f.aWeekPasses(t)
	if done := f.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v at the first look, want what was there to stay", done)
	}
	f.files(t, lost)
	kept := repo.Commit(t, "main", map[string]string{"other": "2"})
	f.fetch(t)
	if done := f.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v before a week has passed, want nothing done", done)
	}
	f.aWeekPasses(t)
	done := f.compact(t)
	if !done.Full || done.PacksAfter != 1 || done.BytesAfter > done.BytesBefore/2 {
		t.Errorf("got %+v, want most of it gone", done)
	}
	if got := f.files(t, kept)["other"]; got != "2" {
		t.Errorf("got %q, want 2", got)
	}
	fsck(t, f)
	r, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := r.Commit(t.Context(), lost); err == nil {
		t.Error("got a commit that no ref has reached for weeks")
	}
}

// TestFollowersTakeCompactedMirrorsOver copies before and after: large packs do not travel again.
func TestFollowersTakeCompactedMirrorsOver(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	owner, follower := newFixture(t, repo.URL()), newFixture(t, repo.URL())
	repo.Commit(t, "main", map[string]string{"large": large()})
	owner.fetch(t)
	owner.fetchTimes(t, repo, many)
	follower.mustAdopt(t, owner, 2*(many+1))
	owner.compact(t)
	last := owner.fetchTimes(t, repo, 1)
	follower.mustAdopt(t, owner, 2*2) // the merged one and the new one
	if diff := cmp.Diff(owner.exported(t).Files, follower.exported(t).Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	follower.files(t, last)
	if done := follower.compact(t); done.PacksBefore != 0 {
		t.Errorf("got %+v of what was compacted already, want nothing done", done)
	}
}
