// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestCopiesBetweenBackEnds lets each back end copy from the other, packs that were thin on the
// wire included, and continue from there.
func TestCopiesBetweenBackEnds(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]opener{
		"from git":   {openGit, openGoGit},
		"from gogit": {openGoGit, openGit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := gittest.New(t).Repo(t, "demo")
			owner, follower := newSubject(t, pair[0], repo.URL()), newSubject(t, pair[1], repo.URL())
			repo.Commit(t, "main", map[string]string{"a": "1", "b": "unchanged"})
			owner.fetch(t)
			repo.Commit(t, "main", map[string]string{"a": "2"})
			owner.fetch(t)
			follower.mustAdopt(t, owner)
			if diff := cmp.Diff(owner.have, follower.have); diff != "" {
				t.Errorf("copied content (-want +got):\n%s", diff)
			}
			third := repo.Commit(t, "main", map[string]string{"a": "3"})
			follower.fetch(t)
			if follower.have.Head != third {
				t.Errorf("got HEAD %s after the copy, want %s", follower.have.Head, third)
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
	owner, same, other := newSubject(t, openGit, repo.URL()), newSubject(t, openGit, nowhere), newSubject(t, openGoGit, nowhere)
	owner.fetch(t)
	same.mustAdopt(t, owner)
	if _, err := other.adopt(t.Context(), owner, owner.exported(t)); err == nil {
		t.Errorf("got %v, want an error", other.have)
	}
	if _, err := other.Load(t.Context(), other.def.UID); !errors.Is(err, mirror.ErrNoMirror) {
		t.Errorf("got %v, want no mirror", err)
	}
}
