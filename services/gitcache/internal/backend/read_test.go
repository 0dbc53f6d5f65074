// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// readsWhatGitReads asks a mirror each kind of question once: package history has the tests of what
// it answers, and reads for all back ends. Only the way to open a large file is their own, as it is
// and as a delta.
func readsWhatGitReads(t *testing.T, open opener) {
	random, noise := rand.New(rand.NewPCG(5, 6)), make([]byte, 6<<20)
	for i := range noise {
		noise[i] = byte('0' + random.IntN(64))
	}
	large := string(noise)
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"app/a": "1", "large": large})
	second := repo.Commit(t, "main", map[string]string{"app/a": "2", "large": strings.Replace(large, large[5<<20:][:50], "", 1)})
	repo.Git(t, "repack", "-a", "-d", "-q", "-f")
	s := newSubject(t, open, repo.URL())
	s.fetch(t)
	r := s.reader(t)
	if got, err := r.Expand(t.Context(), second[:20]); err != nil || got != second {
		t.Errorf("got %q (%v), want %s", got, err, second)
	}
	log, err := r.Log(t.Context(), content.LogParams{From: second, Path: "app/a", Limit: 10})
	if err != nil || len(log.Commits) != 2 || log.Commits[1].ID != first {
		t.Errorf("got %+v (%v), want two commits", log, err)
	}
	changes, err := r.Compare(t.Context(), content.CompareParams{Base: first, Head: second, Limit: 10})
	want := []content.Change{{Path: "app/a", Kind: content.Modified}, {Path: "large", Kind: content.Modified}}
	if diff := cmp.Diff(want, changes); diff != "" || err != nil {
		t.Errorf("changes (-want +got), %v:\n%s", err, diff)
	}
	for _, commit := range []string{first, second} {
		f, err := r.File(t.Context(), commit, "large")
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, f); got != repo.GitRaw(t, "cat-file", "blob", commit+":large") {
			t.Errorf("got %d bytes of commit %s, and not what git has", len(got), commit)
		}
		abandoned, err := r.File(t.Context(), commit, "large")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := abandoned.Read(make([]byte, 10)); n == 0 || err != nil {
			t.Errorf("got %d bytes (%v) of a file that is not read to its end", n, err)
		}
		if err := abandoned.Close(); err != nil {
			t.Errorf("got %v from closing it", err)
		}
		s.wantFiles(t, commit, map[string]string{"app/a": map[string]string{first: "1", second: "2"}[commit], "large": repo.GitRaw(t, "cat-file", "blob", commit+":large")})
	}
}
