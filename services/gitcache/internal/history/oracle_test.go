// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// TestOracle compares every commit of a history of more than 1 000 with git's own answers: its
// place in the history, the listing of its tree, the hash of every file, the canonical tar, and the
// differences from its parents. A tree that several commits share is compared once.
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

// gitCommit is git's description of a commit.
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

// item is a leaf of a tree in a form that both sides have.
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
			r := rereader{openRepo(t, repo), map[string][]byte{}}
			var mine []gitCommit
			for at := i; at < len(distinct); at += readers {
				mine = append(mine, distinct[at])
			}
			for some := range slices.Chunk(mine, 16) {
				folder := gitFolder(t, repo, some)
				listings, archives := gitListings(t, repo, folder), gitArchives(t, repo, folder)
				if len(listings) > len(some) || len(archives) > len(some) {
					t.Fatalf("git lists %d trees and archives %d, want at most %d", len(listings), len(archives), len(some))
				}
				for _, c := range some {
					compareTree(t, r, c, listings[c.tree], archives[c.tree])
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// rereader reads each blob once, however many trees hold it.
type rereader struct {
	content.Reader

	bodies map[string][]byte
}

// Blob implements [content.Reader].
func (r rereader) Blob(ctx context.Context, id string) (content.File, error) {
	body, isRead := r.bodies[id]
	if !isRead {
		f, err := r.Reader.Blob(ctx, id)
		if err != nil {
			return f, err
		}
		if body, err = readFile(f); err != nil {
			return content.File{}, err
		}
		r.bodies[id] = body
	}
	return content.File{Size: int64(len(body)), ReadCloser: io.NopCloser(bytes.NewReader(body))}, nil
}

// gitFolder returns a tree that holds the trees of several commits, each below its id. Git lists and
// archives that one much sooner than each of them, because it starts once.
func gitFolder(t *testing.T, repo *gittest.Repo, commits []gitCommit) string {
	t.Helper()
	var lines strings.Builder
	for _, c := range commits {
		fmt.Fprintf(&lines, "040000 tree %s\t%s\n", c.tree, c.tree)
	}
	return strings.TrimSpace(repo.GitInput(t, lines.String(), "mktree"))
}

// perTree sorts what gitFolder's tree holds by the trees that it is in.
func perTree[T any](t *testing.T, all map[string]T) map[string]map[string]T {
	t.Helper()
	trees := map[string]map[string]T{}
	for path, value := range all {
		tree, below, found := strings.Cut(path, "/")
		if !found {
			t.Fatalf("git has %q outside every tree", path)
		}
		if trees[tree] == nil {
			trees[tree] = map[string]T{}
		}
		trees[tree][below] = value
	}
	return trees
}

// compareTree compares the tree of a commit with git's listing and git's archive of it.
func compareTree(t *testing.T, r content.Reader, c gitCommit, want map[string]item, archive map[string]member) {
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
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("tree of commit %s (-git +got):\n%s", c.id, diff)
	}
	compareArchives(t, c, entries, archive)
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

// gitListings returns git's listings of whole trees, which are in a folder.
func gitListings(t *testing.T, repo *gittest.Repo, folder string) map[string]map[string]item {
	t.Helper()
	kinds := map[string]content.Kind{
		"100644": content.KindFile, "100755": content.KindExecutable, "120000": content.KindSymlink, "160000": content.KindSubmodule,
	}
	items := map[string]item{}
	for record := range strings.SplitSeq(repo.GitRaw(t, "ls-tree", "-r", "-z", "--long", folder), "\x00") {
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
	return perTree(t, items)
}

func blobHash(body []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(body))
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
