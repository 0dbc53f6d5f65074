// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// TestOracle compares every commit of a history of more than 1 000 with what git itself says: its
// place in the history, the listing of its tree, the hash of every file, the canonical tar, and
// what differs from its parents. A tree that several commits share is compared once.
func TestOracle(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	repo.History(t, gittest.HistoryParams{Seed: 3, Commits: 1200})
	packAll(t, repo)
	commits := gitCommits(t, repo)
	if len(commits) < 1000 {
		t.Fatalf("got a history of %d commits, want at least 1000", len(commits))
	}
	t.Run("commits", func(t *testing.T) {
		t.Parallel()
		oracleCommits(t, repo, commits)
	})
	t.Run("trees", func(t *testing.T) {
		t.Parallel()
		oracleTrees(t, repo, commits)
	})
	t.Run("changes", func(t *testing.T) {
		t.Parallel()
		oracleChanges(t, repo, commits)
	})
	t.Run("log", func(t *testing.T) {
		t.Parallel()
		oracleLog(t, repo)
	})
}

// gitCommit is what git says of a commit.
type gitCommit struct {
	id, tree string
	parents  []string
	author   string // "name|email|seconds|seconds of the committer"
	message  string
}

func gitCommits(t *testing.T, repo *gittest.Repo) []gitCommit {
	t.Helper()
	out := repo.GitRaw(t, "log", "--all", "-z", "--format=%H%n%T%n%P%n%an|%ae|%at|%ct%n%B")
	var commits []gitCommit
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		lines := strings.SplitN(record, "\n", 5)
		commits = append(commits, gitCommit{
			id: lines[0], tree: lines[1], parents: strings.Fields(lines[2]), author: lines[3], message: strings.TrimSpace(lines[4]),
		})
	}
	return commits
}

func oracleCommits(t *testing.T, repo *gittest.Repo, commits []gitCommit) {
	t.Helper()
	r := openRepo(t, repo)
	for _, want := range commits {
		c, err := r.Commit(t.Context(), want.id)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := r.Tree(t.Context(), want.id, "")
		if err != nil {
			t.Fatal(err)
		}
		got := gitCommit{
			id: c.ID, tree: tree, parents: slices.Clip(append([]string{}, c.Parents...)), message: strings.TrimSpace(c.Message),
			author: fmt.Sprintf("%s|%s|%d|%d", c.AuthorName, c.AuthorEmail, c.AuthorTime.Unix(), c.CommitTime.Unix()),
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(gitCommit{})); diff != "" {
			t.Fatalf("commit (-git +got):\n%s", diff)
		}
	}
}

// item is a leaf of a tree as both sides can say it.
type item struct {
	Kind content.Kind
	Size int64
	Hash string // of a blob, or the commit of a submodule
}

// oracleTrees shares the trees among a few readers.
func oracleTrees(t *testing.T, repo *gittest.Repo, commits []gitCommit) {
	t.Helper()
	seen := map[string]bool{}
	distinct := slices.DeleteFunc(slices.Clone(commits), func(c gitCommit) bool {
		again := seen[c.tree]
		seen[c.tree] = true
		return again
	})
	t.Logf("%d commits with %d trees", len(commits), len(distinct))
	const readers = 4
	for i := range readers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			r := openRepo(t, repo)
			for at := i; at < len(distinct) && !t.Failed(); at += readers {
				compareTree(t, r, repo, distinct[at])
			}
		})
	}
}

func compareTree(t *testing.T, r content.Reader, repo *gittest.Repo, c gitCommit) {
	t.Helper()
	var entries []entry
	got := map[string]item{}
	err := walk(t.Context(), r, c.tree, "", func(e entry) error {
		if n := len(entries); n > 0 && e.path <= entries[n-1].path {
			t.Errorf("got %q after %q, want rising paths", e.path, entries[n-1].path)
		}
		entries = append(entries, e)
		got[e.path] = item{Kind: e.kind}
		if e.kind != content.KindSubmodule {
			got[e.path] = item{e.kind, int64(len(e.body)), blobHash(e.body)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := gitListing(t, repo, c.tree)
	listed := map[string]string{}
	listIDs(t, r, c.tree, "", listed)
	for path, i := range want {
		if listed[path] != i.Hash {
			t.Errorf("commit %s: got id %s of %q, want %s", c.id, listed[path], path, i.Hash)
		}
		if i.Kind == content.KindSubmodule {
			want[path] = item{Kind: i.Kind} // whose commit is not here to be read and hashed
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree of commit %s (-git +got):\n%s", c.id, diff)
	}
	compareArchives(t, repo, c, entries)
}

// listIDs collects the ids that trees list.
func listIDs(t *testing.T, r content.Reader, tree, prefix string, into map[string]string) {
	t.Helper()
	entries, err := r.List(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			listIDs(t, r, e.ID, prefix+e.Name+"/", into)
			continue
		}
		into[prefix+e.Name] = e.ID
	}
}

// gitListing is git's listing of a whole tree.
func gitListing(t *testing.T, repo *gittest.Repo, tree string) map[string]item {
	t.Helper()
	kinds := map[string]content.Kind{
		"100644": content.KindFile, "100755": content.KindExecutable, "120000": content.KindSymlink, "160000": content.KindSubmodule,
	}
	items := map[string]item{}
	for record := range strings.SplitSeq(repo.GitRaw(t, "ls-tree", "-r", "-z", "--long", tree), "\x00") {
		if record == "" {
			continue
		}
		about, path, _ := strings.Cut(record, "\t")
		fields := strings.Fields(about)
		kind, known := kinds[fields[0]]
		if !known {
			t.Fatalf("git lists a mode that is new to this test: %s", about)
		}
		if kind == content.KindSubmodule {
			items[path] = item{Kind: kind, Hash: fields[2]}
			continue
		}
		var size int64
		if _, err := fmt.Sscan(fields[3], &size); err != nil {
			t.Fatal(err)
		}
		items[path] = item{kind, size, fields[2]}
	}
	return items
}

func blobHash(body []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(body))
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
