// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/backendtest"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func newGoGit(t *testing.T) *gogit.Git {
	t.Helper()
	g, err := gogit.New(gogit.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// copyMirror copies as replicas do from one another.
func copyMirror(ctx context.Context, from, to backendtest.Backend, c mirror.Content) (mirror.Content, error) {
	generation, files, err := from.Export(ctx, "uid-1")
	if err != nil {
		return mirror.Content{}, err
	}
	description := mirror.Copy{Fingerprint: c.Fingerprint(), Content: c, Generation: generation, Files: files}
	return to.Adopt(ctx, "uid-1", description, func(ctx context.Context, f mirror.File) (io.ReadCloser, error) {
		return from.OpenFile(ctx, "uid-1", generation, f.Name)
	})
}

func fetchInto(t *testing.T, b backendtest.Backend, url string, have mirror.Content) mirror.Content {
	t.Helper()
	def := mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url}}
	c, err := b.Fetch(t.Context(), mirror.FetchParams{Definition: def, Have: have, Epoch: 1, Guard: allowed})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCopiesBetweenBackEnds lets each back end copy from the other, packs that were thin on the
// wire included, and go on from there.
func TestCopiesBetweenBackEnds(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]backendtest.Backend{
		"from git":   {newGit(t), newGoGit(t)},
		"from gogit": {newGoGit(t), newGit(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := pair[0], pair[1]
			repo := gittest.New(t).Repo(t, "demo")
			repo.Commit(t, "main", map[string]string{"a": "1", "b": "unchanged"})
			have := fetchInto(t, from, repo.URL(), mirror.Content{})
			repo.Commit(t, "main", map[string]string{"a": "2"})
			have = fetchInto(t, from, repo.URL(), have)
			got, err := copyMirror(t.Context(), from, to, have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(have, got); diff != "" {
				t.Errorf("copied content (-want +got):\n%s", diff)
			}
			third := repo.Commit(t, "main", map[string]string{"a": "3"})
			if got := fetchInto(t, to, repo.URL(), got); got.Head != third {
				t.Errorf("got HEAD %s after the copy, want %s", got.Head, third)
			}
		})
	}
}

// TestCopyThatCannotBeRead offers a mirror with SHA-256 names to the back end that cannot read it.
func TestCopyThatCannotBeRead(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	if err := errors.Join(os.RemoveAll(repo.Dir()), os.Mkdir(repo.Dir(), 0o700)); err != nil {
		t.Fatal(err)
	}
	repo.Git(t, "init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", repo.Dir())
	repo.Commit(t, "main", map[string]string{"a": "1"})
	from, to := newGit(t), newGoGit(t)
	have := fetchInto(t, from, repo.URL(), mirror.Content{})
	if _, err := copyMirror(t.Context(), from, newGit(t), have); err != nil {
		t.Errorf("got %v from the same back end, want a copy", err)
	}
	if got, err := copyMirror(t.Context(), from, to, have); err == nil {
		t.Errorf("got %v, want an error", got)
	}
	if _, err := to.Load(t.Context(), "uid-1"); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no mirror", err)
	}
}
