// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// git asks the git command about the mirror's current generation.
func (f *fixture) git(t *testing.T, args ...string) string {
	t.Helper()
	generations, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*"))
	if err != nil || len(generations) != 1 {
		t.Fatalf("got generations %q (%v), want one", generations, err)
	}
	out, err := exec.Command("git", append([]string{"--git-dir", generations[0]}, args...)...).Output()
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.AnnotatedTag(t, "v1", first)
	f := newFixture(t, repo.URL())
	f.fetch(t)
	second := repo.ForcePush(t, "main", map[string]gittest.File{"a": gittest.Text("2")})

	refused := errors.New("refused")
	fetch := func(admit func(context.Context, content.Reader, mirror.Content) (mirror.Content, error)) error {
		c, err := f.Fetch(t.Context(), mirror.FetchParams{Definition: f.def, Have: f.have, Epoch: 2, Guard: allowed, Admit: admit})
		if err == nil {
			f.have = c
		}
		return err
	}
	err := fetch(func(_ context.Context, _ content.Reader, c mirror.Content) (mirror.Content, error) { return c, refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want what refused the refs", err)
	}
	if loaded, err := f.Load(t.Context(), f.def.UID); err != nil || loaded.Refs[0].Commit != first {
		t.Errorf("got %+v (%v) on disk, want what was there before", loaded, err)
	}

	err = fetch(func(ctx context.Context, r content.Reader, c mirror.Content) (mirror.Content, error) {
		object, err := r.Object(ctx, second) // what was fetched can be read before it counts
		if want := repo.Git(t, "cat-file", "commit", second); object.Kind != content.KindCommit || strings.TrimSpace(string(object.Data)) != want {
			t.Errorf("got %q (%v), want %q", object, err, want)
		}
		held := c.Refs[0]
		held.Held, held.GoodObject, held.GoodCommit = "is not signed", first, first
		c.Refs, c.Policy = mirror.NewRefs(append(mirror.Refs{held}, c.Refs[1:]...)), "p1"
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.reopen(t)
	loaded, err := f.Load(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.have.Refs, loaded.Refs); diff != "" || loaded.Policy != "p1" || loaded.Refs[0].Delivered() != first {
		t.Errorf("got policy %q and refs (-want +got):\n%s", loaded.Policy, diff)
	}
	// Delivered objects are reachable for tools that drop unreachable ones.
	want := first + " refs/leat/heads/main\n"
	if got := f.git(t, "for-each-ref", "--format=%(objectname) %(refname)", "refs/leat"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.git(t, "fsck", "--strict")

	loaded.Refs, loaded.Policy = mirror.NewRefs([]mirror.Ref{{Name: "refs/heads/main", Object: second, Commit: second}}), "p2"
	if err := f.SaveDelivery(t.Context(), f.def.UID, loaded); err != nil {
		t.Fatal(err)
	}
	again, err := f.Load(t.Context(), f.def.UID)
	if err != nil || again.Policy != "p2" || again.Refs[0].Held != "" || again.FreshAt != loaded.FreshAt {
		t.Errorf("got %+v (%v), want what was settled", again, err)
	}
	if got := f.git(t, "for-each-ref", "refs/leat"); got != "" {
		t.Errorf("got %q, want nothing held back", got)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "1"})
	repo.AnnotatedTag(t, "v1", commit)
	f := newFixture(t, repo.URL())
	f.fetch(t)
	r, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for revision, want := range map[string]content.ObjectKind{"main": content.KindCommit, "v1": content.KindTag, "main^{tree}": "", "main:a": ""} {
		id := repo.Git(t, "rev-parse", revision)
		got, err := r.Object(t.Context(), id)
		if err != nil || got.Kind != want {
			t.Errorf("%s: got %q (%v), want %q", revision, got.Kind, err, want)
		}
		if want != "" && string(got.Data) != f.git(t, "cat-file", string(want), id) {
			t.Errorf("%s: got %q, want it as git has it", revision, got.Data)
		}
	}
	for _, id := range []string{strings.Repeat("0", 40), "main", ""} {
		if _, err := r.Object(t.Context(), id); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("%q: got %v, want ErrCommitNotFound", id, err)
		}
	}
}
