// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// nowhere is the URL of an upstream that must not be asked.
const nowhere = "http://127.0.0.1:1/nowhere.git"

// exported describes the mirror as its replica would to another.
func (s *subject) exported(t *testing.T) mirror.Copy {
	t.Helper()
	generation, files, err := s.Export(t.Context(), s.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	return mirror.Copy{Fingerprint: s.have.Fingerprint(), Content: s.have, Generation: generation, Files: files}
}

// adopt copies from another replica, and returns the names of the files that were opened for that.
func (s *subject) adopt(ctx context.Context, from *subject, c mirror.Copy) (opened []string, err error) {
	got, err := s.Adopt(ctx, s.def.UID, c, func(ctx context.Context, file mirror.File) (io.ReadCloser, error) {
		opened = append(opened, file.Name)
		return from.OpenFile(ctx, from.def.UID, c.Generation, file.Name)
	})
	if err == nil {
		s.have = got
	}
	return opened, err
}

// mustAdopt wants exactly the files that the other has and this one lacks to be opened.
func (s *subject) mustAdopt(t *testing.T, from *subject) {
	t.Helper()
	mine := map[string]bool{}
	if _, files, err := s.Export(t.Context(), s.def.UID); err == nil {
		for _, file := range files {
			mine[file.Name] = true
		}
	}
	copied := from.exported(t)
	lacking := 0
	for _, file := range copied.Files {
		if !mine[file.Name] {
			lacking++
		}
	}
	opened, err := s.adopt(t.Context(), from, copied)
	if err != nil {
		t.Fatal(err)
	}
	if len(opened) != lacking || lacking == 0 {
		t.Errorf("got files %v copied, want the %d that were lacking", opened, lacking)
	}
	if s.have.Fingerprint() != from.have.Fingerprint() || s.have.Epoch != from.have.Epoch || !s.have.FreshAt.Equal(from.have.FreshAt) {
		t.Errorf("got %+v, want what the other has: %+v", s.have, from.have)
	}
}

func copies(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"app/a": "1", "b": "1"})
	repo.AnnotatedTag(t, "v1", first)
	owner, follower := newSubject(t, open, repo.URL()), newSubject(t, open, nowhere)
	owner.fetch(t)
	follower.mustAdopt(t, owner)
	follower.wantFiles(t, first, map[string]string{"app/a": "1", "b": "1"})

	second := repo.Commit(t, "main", map[string]string{"app/a": "2"})
	owner.fetch(t)
	reader, err := follower.Open(t.Context(), follower.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	follower.mustAdopt(t, owner)
	if _, err := reader.Tree(t.Context(), first, "app"); err != nil {
		t.Errorf("got %v from a reader that was open during the copy", err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	follower.wantFiles(t, second, map[string]string{"app/a": "2", "b": "1"})
	follower.reload(t)
	follower.fsck(t)

	// A follower that becomes the owner continues where the other was.
	follower.def.URL = repo.URL()
	third := repo.Commit(t, "main", map[string]string{"b": "3"})
	before := repo.Stats().Fetches
	follower.fetch(t)
	follower.wantRefs(t, map[string]string{"heads/main": third, "tags/v1": first})
	follower.wantFiles(t, third, map[string]string{"app/a": "2", "b": "3"})
	if repo.Stats().Fetches == before {
		t.Error("got no request for objects, want one")
	}
}

// copyDropsOthers copies to a mirror with packs of its own: it has the other's afterwards, once.
func copyDropsOthers(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	one, two := newSubject(t, open, repo.URL()), newSubject(t, open, repo.URL())
	one.fetch(t)
	two.mustAdopt(t, one)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	two.fetch(t) // a pack that the other has not
	last := repo.Commit(t, "main", map[string]string{"a": "3"})
	one.fetch(t)
	two.mustAdopt(t, one)
	two.wantFiles(t, last, map[string]string{"a": "3"})
	if diff := cmp.Diff(one.exported(t).Files, two.exported(t).Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	two.reload(t)
}

func badCopies(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	owner, follower := newSubject(t, open, repo.URL()), newSubject(t, open, nowhere)
	owner.fetch(t)
	follower.mustAdopt(t, owner)
	repo.Commit(t, "main", map[string]string{"a": "2"})
	owner.fetch(t)
	good := owner.exported(t)

	for _, name := range []string{"../../state.json", "/etc/passwd", "pack-x.pack", "", "pack-" + first + ".pack/../x"} {
		wrong := good
		wrong.Files = append([]mirror.File{{Name: name, Size: 1}}, good.Files...)
		if _, err := follower.adopt(t.Context(), owner, wrong); err == nil {
			t.Errorf("got no error for a file named %q", name)
		}
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
	errBroken := errors.New("the other replica is gone")
	failing := func(context.Context, mirror.File) (io.ReadCloser, error) { return nil, errBroken }
	if _, err := follower.Adopt(t.Context(), follower.def.UID, good, failing); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want why the file could not be opened", err)
	}
	follower.wantFiles(t, first, map[string]string{"a": "1"})
	follower.reload(t)
	follower.mustAdopt(t, owner)

	for _, file := range []struct{ generation, name string }{
		{good.Generation, "../state.json"},
		{good.Generation, "../../HEAD"},
		{"..", good.Files[0].Name},
		{"gen-none", good.Files[0].Name},
	} {
		if _, err := owner.OpenFile(t.Context(), owner.def.UID, file.generation, file.name); !errors.Is(err, mirror.ErrNoMirror) {
			t.Errorf("got %v for %+v, want ErrNoMirror", err, file)
		}
	}
	if _, _, err := owner.Export(t.Context(), "uid-2"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v for a mirror that is not there, want ErrNoMirror", err)
	}
}

func confirmed(t *testing.T, open opener) {
	repo := gittest.New(t).Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	s.have.FreshAt, s.have.Epoch = s.have.FreshAt.Add(time.Hour), 7
	if err := s.Confirm(t.Context(), s.def.UID, s.have); err != nil {
		t.Fatal(err)
	}
	s.reload(t)
	if left, _ := filepath.Glob(filepath.Join(s.dir, s.def.UID, "tmp-*")); len(left) != 0 {
		t.Errorf("got leftovers %v", left)
	}
}
