// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// oracleChanges compares every commit with each of its parents, and each root with another commit.
func oracleChanges(t *testing.T, repo *gittest.Repo, commits []gitCommit) {
	t.Helper()
	r := openRepo(t, repo)
	trees := map[string]string{}
	for _, c := range commits {
		trees[c.id] = c.tree
	}
	type pair struct{ base, head string }
	var pairs []pair
	var asked strings.Builder
	for i, c := range commits {
		parents := c.parents
		if len(parents) == 0 {
			parents = []string{commits[len(commits)/2+i%7].id}
		}
		for _, parent := range parents {
			pairs = append(pairs, pair{parent, c.id})
			asked.WriteString(trees[parent] + " " + c.tree + "\n")
		}
	}
	answers := gitChanges(t, repo.GitInput(t, asked.String(), "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames"))
	for i, p := range pairs {
		want := answers[trees[p.base]+" "+trees[p.head]]
		got := wholeComparison(t, r, content.CompareParams{Base: p.base, Head: p.head, Limit: []int{3, 1000}[i%2]})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("changes from %s to %s (-git +got):\n%s", p.base, p.head, diff)
		}
	}
}

// gitChanges reads the output of git diff-tree for many pairs of trees: a line that names the pair,
// and for each path two fields that end with NUL.
func gitChanges(t *testing.T, out string) map[string][]content.Change {
	t.Helper()
	kinds := map[string]content.ChangeKind{"A": content.Added, "D": content.Deleted, "M": content.Modified, "T": content.Modified}
	answers := map[string][]content.Change{}
	pair := ""
	for out != "" {
		if out[0] != ':' {
			pair, out, _ = strings.Cut(out, "\n")
			continue
		}
		var about, path string
		about, out, _ = strings.Cut(out, "\x00")
		path, out, _ = strings.Cut(out, "\x00")
		kind, known := kinds[about[len(about)-1:]]
		if !known {
			t.Fatalf("git says %q of %q", about, path)
		}
		answers[pair] = append(answers[pair], content.Change{Path: path, Kind: kind})
	}
	for _, changes := range answers {
		slices.SortFunc(changes, func(a, b content.Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return answers
}

// oracleLog compares the history of the tip of main, of all of it and of files and folders that
// come and go in it.
func oracleLog(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	r := openRepo(t, repo)
	tip := repo.Resolve(t, "main")
	all := strings.Split(repo.Git(t, "log", "--format=%H", tip), "\n")
	if got := wholeLog(t, r, content.LogParams{From: tip, Limit: 100}); !slices.Equal(got, all) {
		t.Errorf("log of main (-git +got):\n%s", cmp.Diff(all, got))
	}
	merges := map[string]bool{}
	for id := range strings.FieldsSeq(repo.Git(t, "rev-list", "--min-parents=2", tip)) {
		merges[id] = true
	}
	for i, path := range samplePaths(t, repo, tip) {
		args := []string{"--literal-pathspecs", "log", "--full-history", "--no-merges", "--format=%H", tip, "--", path}
		want := strings.Fields(repo.Git(t, args...))
		// Of merges git has another opinion, depending on who asks.
		got := slices.DeleteFunc(wholeLog(t, r, content.LogParams{From: tip, Path: path, Limit: []int{7, 1000}[min(i, 1)]}), func(id string) bool { return merges[id] })
		if !slices.Equal(got, want) {
			t.Errorf("log of %q (-git +got):\n%s", path, cmp.Diff(want, got))
		}
	}
}

// samplePaths are some files of the history and the folders they are in, whether or not they are
// there at its end.
func samplePaths(t *testing.T, repo *gittest.Repo, tip string) []string {
	t.Helper()
	touched := strings.Split(repo.GitRaw(t, "log", "-z", "--name-only", "--no-renames", "--format=", tip), "\x00")
	slices.Sort(touched)
	touched = slices.Compact(touched)
	paths := []string{"tidy", "wild"}
	const samples = 20
	for i := 1; i < len(touched); i += 1 + len(touched)/samples {
		paths = append(paths, strings.Trim(touched[i], "\n"))
		if parts := strings.Split(paths[len(paths)-1], "/"); len(parts) > 2 {
			paths = append(paths, strings.Join(parts[:2], "/"))
		}
	}
	return paths
}
