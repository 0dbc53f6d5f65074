// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/faults"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// many is more packs than a mirror keeps.
const many = 24

// alone is for mirrors without another writer.
func alone(context.Context) (func(), error) { return func() {}, nil }

// fetchTimes makes commits and fetches each of them by itself; it returns the last.
func (m *mirrored) fetchTimes(t *testing.T, repo *gittest.Repo, times int) (last string) {
	t.Helper()
	for i := range times {
		last = repo.Commit(t, "main", map[string]string{"d/f" + strconv.Itoa(i%5): fmt.Sprintf("%d\n%s", i, strings.Repeat("line\n", 50))})
		m.fetch(t)
	}
	return last
}

func (m *mirrored) compact(t *testing.T) mirror.Compaction {
	t.Helper()
	done, err := m.Compact(t.Context(), m.def.UID, alone)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestFailedCompactionChangesNothing fails at each step once.
func TestFailedCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	m := newMirrored(t, repo.URL(), gogit.Config{})
	last := m.fetchTimes(t, repo, many)
	inject := faults.New()
	m.cfg.Fault = inject.Check
	m.reopen(t)
	for _, step := range []string{"linked", "merged", "verified"} {
		inject.FailTimes(step, 1, syscall.ENOSPC)
		if _, err := m.Compact(t.Context(), m.def.UID, alone); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: got %v, want a full disk", step, err)
		}
		if got := len(m.packs(t)); got != many {
			t.Errorf("%s: got %d packs, want %d as before", step, got, many)
		}
		if left := m.leftovers(t); len(left) != 0 {
			t.Errorf("%s: got %v left behind", step, left)
		}
		m.files(t, last)
	}
	gone := errors.New("shutting down")
	if _, err := m.Compact(t.Context(), m.def.UID, func(context.Context) (func(), error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v, want that the mirror could not be entered", err)
	}
	if done := m.compact(t); done.PacksAfter != 1 {
		t.Errorf("got %+v, want one pack in the end", done)
	}
	m.fsck(t)
}

const killEnvironment = "LEAT_TEST_COMPACT_AND_DIE"

// TestKilledCompactionLeavesAWholeMirror kills a process with SIGKILL between any two steps of a
// compaction.
func TestKilledCompactionLeavesAWholeMirror(t *testing.T) {
	if spec := os.Getenv(killEnvironment); spec != "" {
		dir, step, _ := strings.Cut(spec, "|")
		compactAndDie(t, dir, step)
		return
	}
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	m := newMirrored(t, repo.URL(), gogit.Config{})
	last := m.fetchTimes(t, repo, many)
	want := m.files(t, last)
	for _, step := range []string{"linked", "merged", "verified", "switched"} {
		copied := newMirrored(t, repo.URL(), gogit.Config{})
		if err := os.CopyFS(copied.cfg.Dir, os.DirFS(m.cfg.Dir)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killEnvironment+"="+copied.cfg.Dir+"|"+step)
		out, err := cmd.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%s: got %v, want a killed process\n%s", step, err, out)
		}
		copied.reopen(t)
		if diff := cmp.Diff(want, copied.files(t, last)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", step, diff)
		}
		copied.fsck(t)
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
