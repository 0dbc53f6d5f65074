// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// exported describes f's mirror as its replica would to another.
func (f *fixture) exported(t *testing.T) mirror.Copy {
	t.Helper()
	generation, files, err := f.Export(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	return mirror.Copy{Fingerprint: f.have.Fingerprint(), Content: f.have, Generation: generation, Files: files}
}

// adopt copies from another replica, and returns how many files were opened for that.
func (f *fixture) adopt(ctx context.Context, from *fixture, c mirror.Copy) (opened int, err error) {
	got, err := f.Adopt(ctx, f.def.UID, c, func(ctx context.Context, file mirror.File) (io.ReadCloser, error) {
		opened++
		return from.OpenFile(ctx, from.def.UID, c.Generation, file.Name)
	})
	if err == nil {
		f.have = got
	}
	return opened, err
}

func (f *fixture) mustAdopt(t *testing.T, from *fixture, wantOpened int) {
	t.Helper()
	opened, err := f.adopt(t.Context(), from, from.exported(t))
	if err != nil {
		t.Fatal(err)
	}
	if opened != wantOpened {
		t.Errorf("got %d files copied, want %d", opened, wantOpened)
	}
	if f.have.Fingerprint() != from.have.Fingerprint() || f.have.Epoch != from.have.Epoch || !f.have.FreshAt.Equal(from.have.FreshAt) {
		t.Errorf("got %+v, want what the other has: %+v", f.have, from.have)
	}
}

func TestCopyBetweenReplicas(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"app/a": "1", "b": "1"})
	owner, follower := newFixture(t, repo.URL()), newFixture(t, "http://127.0.0.1:1/nowhere.git")
	owner.fetch(t)
	follower.mustAdopt(t, owner, 2)
	if diff := cmp.Diff(owner.files(t, first), follower.files(t, first)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	second := repo.Commit(t, "main", map[string]string{"app/a": "2"})
	owner.fetch(t)
	reader, err := follower.Open(t.Context(), follower.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	follower.mustAdopt(t, owner, 2) // the new pack only
	if _, err := reader.Tree(t.Context(), first, "app"); err != nil {
		t.Errorf("got %v from a reader that was open during the copy", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(owner.files(t, second), follower.files(t, second)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	follower.reopen(t)
	loaded, err := follower.Load(t.Context(), follower.def.UID)
	if err != nil || loaded.Fingerprint() != owner.have.Fingerprint() {
		t.Errorf("got %+v (%v) after a restart, want what was copied", loaded, err)
	}
	// A follower that becomes the owner goes on where the other was.
	follower.def.URL = repo.URL()
	third := repo.Commit(t, "main", map[string]string{"b": "3"})
	follower.fetch(t)
	follower.wantRefs(t, map[string]string{"heads/main": third})
	if got := repo.Stats().Fetches; got != 3 { // a clone, what the owner fetched, and what came after
		t.Errorf("got %d fetches of objects, want 3", got)
	}
}

// TestCopyDropsWhatTheOwnerHasNot copies to a mirror with packs of its own: it has the other's afterwards, once.
func TestCopyDropsWhatTheOwnerHasNot(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	one, two := newFixture(t, repo.URL()), newFixture(t, repo.URL())
	one.fetch(t)
	two.mustAdopt(t, one, 2)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	two.fetch(t) // a pack that the other has not
	last := repo.Commit(t, "main", map[string]string{"a": "3"})
	one.fetch(t)
	two.mustAdopt(t, one, 2) // what both have is linked
	if got := two.files(t, last)["a"]; got != "3" {
		t.Errorf("got %q, want 3", got)
	}
	if diff := cmp.Diff(one.exported(t).Files, two.exported(t).Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBadCopiesChangeNothing(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	owner, follower := newFixture(t, repo.URL()), newFixture(t, repo.URL())
	owner.fetch(t)
	follower.mustAdopt(t, owner, 2)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	owner.fetch(t)
	good := owner.exported(t)

	wrongName := good
	wrongName.Files = append([]mirror.File{{Name: "../../state.json", Size: 1}}, good.Files...)
	if _, err := follower.adopt(t.Context(), owner, wrongName); err == nil {
		t.Error("got no error for a name that leads elsewhere")
	}
	lacking := good
	lacking.Files = follower.exported(t).Files
	if _, err := follower.adopt(t.Context(), owner, lacking); err == nil {
		t.Error("got no error for refs that lead nowhere")
	}
	forged := func(context.Context, mirror.File) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader([]byte("not a pack"))), nil
	}
	if _, err := follower.Adopt(t.Context(), follower.def.UID, good, forged); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("got %v for other bytes, want a mismatch", err)
	}
	if got := follower.files(t, first)["a"]; got != "1" {
		t.Errorf("got %q after bad copies, want 1", got)
	}
	follower.reopen(t)
	if c, err := follower.Load(t.Context(), follower.def.UID); err != nil || c.Fingerprint() != follower.have.Fingerprint() {
		t.Errorf("got %+v (%v) after bad copies and a restart, want what was there", c, err)
	}
	follower.mustAdopt(t, owner, 2)

	if _, err := owner.OpenFile(t.Context(), owner.def.UID, good.Generation, "../state.json"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v for a file that is no pack, want ErrNoMirror", err)
	}
	if _, err := owner.OpenFile(t.Context(), owner.def.UID, "..", good.Files[0].Name); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v for another folder, want ErrNoMirror", err)
	}
	if _, _, err := owner.Export(t.Context(), "uid-2"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v for a mirror that is not there, want ErrNoMirror", err)
	}
}

func TestConfirmOutlivesARestart(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.fetch(t)
	later := f.have
	later.FreshAt, later.Epoch = later.FreshAt.Add(time.Hour), 7
	if err := f.Confirm(t.Context(), f.def.UID, later); err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	c, err := f.Load(t.Context(), f.def.UID)
	if err != nil || c.Epoch != 7 || !c.FreshAt.Equal(later.FreshAt) {
		t.Errorf("got %+v (%v), want it fresh at %s", c, err, later.FreshAt)
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, f.def.UID, "tmp-*")); len(left) != 0 {
		t.Errorf("got leftovers %v", left)
	}
	if _, err := os.Stat(filepath.Join(f.dir, f.def.UID, "fresh.json")); err != nil {
		t.Error(err)
	}
}
