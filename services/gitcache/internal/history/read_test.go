// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// TestShortIDs makes enough commits that one digit never names one alone.
func TestShortIDs(t *testing.T) { inEachFormat(t, shortIDs) }

func shortIDs(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	var ids []string
	for i := range 40 {
		ids = append(ids, repo.Commit(t, "main", map[string]string{"a": fmt.Sprint(i)}))
	}
	packAll(t, repo)
	ids = append(ids, repo.Commit(t, "main", map[string]string{"a": "in a pack of its own"}))
	repo.Git(t, "repack", "-d", "-q")
	r := openRepo(t, repo)
	for _, id := range ids {
		for digits := 1; digits <= len(id); digits++ {
			expand(t, r, id[:digits], ids)
		}
	}
	tree := repo.Git(t, "rev-parse", "main^{tree}")
	for _, prefix := range []string{tree[:12], tree, "0000000", "", "xyz0123"} {
		if got, err := r.Expand(t.Context(), prefix); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("%q: got %q (%v), want ErrCommitNotFound", prefix, got, err)
		}
	}
}

// expand wants the one id that begins so, or an error that names all of them.
func expand(t *testing.T, r content.Reader, prefix string, ids []string) {
	t.Helper()
	var same []string
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			same = append(same, id)
		}
	}
	got, err := r.Expand(t.Context(), prefix)
	if len(same) == 1 {
		if got != same[0] || err != nil {
			t.Errorf("%s: got %q (%v), want %s", prefix, got, err, same[0])
		}
		return
	}
	slices.Sort(same)
	several, ok := errors.AsType[*content.AmbiguousError](err)
	if !ok || !errors.Is(err, content.ErrCommitNotFound) || several.Prefix != prefix ||
		!slices.Equal(several.Candidates, same[:min(len(same), content.MaxCandidates)]) {
		t.Errorf("%s: got %q (%v), want an error that names %v", prefix, got, err, same)
	}
}

func TestFilesAndFolders(t *testing.T) { inEachFormat(t, filesAndFolders) }

func filesAndFolders(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	commit := repo.CommitFiles(t, "main", map[string]gittest.File{
		"dir/a": gittest.Text("1"), "dir/run": gittest.Executable("#!/bin/sh\n"), "dir/link": gittest.Symlink("a"),
		"dir/sub/deep": gittest.Text(""), "dir.x": gittest.Text("sorts before dir/"), "dir0": gittest.Text("sorts after dir/"),
	})
	packAll(t, repo)
	r := openRepo(t, repo)
	want := map[string]leaf{
		"a": {content.KindFile, "1"}, "run": {content.KindExecutable, "#!/bin/sh\n"}, "link": {content.KindSymlink, "a"},
		"sub/deep": {content.KindFile, ""},
	}
	if diff := cmp.Diff(want, leaves(t, r, commit, "dir")); diff != "" {
		t.Errorf("leaves of dir (-want +got):\n%s", diff)
	}
	if got, want := len(leaves(t, r, commit, "")), 6; got != want {
		t.Errorf("got %d leaves in all, want %d", got, want)
	}
	if tree, err := r.Tree(t.Context(), commit, "dir"); err != nil || tree != repo.Git(t, "rev-parse", "main:dir") {
		t.Errorf("got tree %s (%v), want git's", tree, err)
	}
	for path, want := range map[string]string{"dir/a": "1", "dir/run": "#!/bin/sh\n", "dir/sub/deep": "", "dir0": "sorts after dir/"} {
		f, err := r.File(t.Context(), commit, path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		body, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil || string(body) != want || f.Size != int64(len(want)) {
			t.Errorf("%s: got %q of %d bytes (%v), want %q", path, body, f.Size, err, want)
		}
	}
	wrongQuestions(t, r, commit, repo.Git(t, "rev-parse", "main^{tree}"))
}

// wrongQuestions asks for what the commit does not have.
func wrongQuestions(t *testing.T, r content.Reader, commit, tree string) {
	t.Helper()
	for _, path := range []string{"nowhere", "dir/a", "dir/a/b", "dir/nowhere", "dir/link", "dir/link/x"} {
		_, err := r.Tree(t.Context(), commit, path)
		if missing, ok := errors.AsType[*content.PathError](err); !ok || missing.Path != path || missing.Want != "folder" {
			t.Errorf("got %v for folder %q, want a PathError", err, path)
		}
	}
	for _, path := range []string{"nowhere", "dir", "dir/sub", "dir/a/b", ""} {
		_, err := r.File(t.Context(), commit, path)
		if missing, ok := errors.AsType[*content.PathError](err); !ok || missing.Path != path || missing.Want != "file" {
			t.Errorf("got %v for file %q, want a PathError", err, path)
		}
	}
	for _, id := range []string{strings.Repeat("0", len(commit)), "main", tree, "", "HEAD", "--all"} {
		if _, err := r.Commit(t.Context(), id); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("got %v for commit %q, want ErrCommitNotFound", err, id)
		}
		if _, err := r.Tree(t.Context(), id, ""); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("got %v for the root of commit %q, want ErrCommitNotFound", err, id)
		}
	}
}

func TestLog(t *testing.T) { inEachFormat(t, logs) }

func logs(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	var app, all []string
	for i := range 6 {
		id := repo.Commit(t, "main", map[string]string{"app/a": fmt.Sprint(i)})
		other := repo.Commit(t, "main", map[string]string{"other": fmt.Sprint(i)})
		app, all = append(app, id), append(all, id, other)
	}
	slices.Reverse(app)
	slices.Reverse(all)
	packAll(t, repo)
	r := openRepo(t, repo)
	for path, want := range map[string][]string{"": all, "app": app, "app/a": app, "nowhere": nil} {
		for _, limit := range []int{1, 4, 100} {
			if got := wholeLog(t, r, content.LogParams{From: all[0], Path: path, Limit: limit}); !slices.Equal(got, want) {
				t.Errorf("log of %q by %d: got %v, want %v", path, limit, got, want)
			}
		}
	}
	for path, want := range map[string][]string{"": all[:4], "app": app[:2], "nowhere": nil} {
		for _, limit := range []int{1, 4, 100} {
			p := content.LogParams{From: all[0], Until: all[4], Path: path, Limit: limit}
			if got := wholeLog(t, r, p); !slices.Equal(got, want) {
				t.Errorf("log of %q since %s by %d: got %v, want %v", path, all[4], limit, got, want)
			}
		}
	}
	got, err := r.Commit(t.Context(), all[0])
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != all[0] || !slices.Equal(got.Parents, all[1:2]) || got.AuthorName == "" || got.AuthorEmail == "" ||
		got.CommitTime.IsZero() || got.AuthorTime.IsZero() || strings.TrimSpace(got.Message) != "Commit 12" {
		t.Errorf("got %+v, want the whole last commit", got)
	}
	if _, err := r.Log(t.Context(), content.LogParams{From: strings.Repeat("1", len(all[0])), Limit: 1}); !errors.Is(err, content.ErrCommitNotFound) {
		t.Errorf("got %v from an unknown commit, want ErrCommitNotFound", err)
	}
}

// wholeLog reads a history in pieces, and returns the ids.
func wholeLog(t *testing.T, r content.Reader, p content.LogParams) []string {
	t.Helper()
	var ids []string
	for {
		piece, err := r.Log(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if len(piece.Commits) > p.Limit || (piece.Next != 0 && piece.Next <= p.Skip) {
			t.Fatalf("got %d commits and next %d after %+v", len(piece.Commits), piece.Next, p)
		}
		for _, c := range piece.Commits {
			ids = append(ids, c.ID)
		}
		if piece.Next == 0 {
			return ids
		}
		p.Skip = piece.Next
	}
}

func TestCompare(t *testing.T) { inEachFormat(t, comparison) }

func comparison(t *testing.T, repo *gittest.Repo) {
	t.Helper()
	base := repo.Commit(t, "main", map[string]string{"a": "1", "a.b": "1", "gone/x": "1", "same": "1", "swap/in": "1", "z": "1"})
	head := repo.CommitFiles(t, "main", map[string]gittest.File{
		"a": gittest.Deleted(), "a/x": gittest.Text("1"), "gone": gittest.Deleted(), "swap": gittest.Text("1"), "new/y": gittest.Text("1"),
		"z": gittest.Executable("1"),
	})
	packAll(t, repo)
	r := openRepo(t, repo)
	want := []content.Change{
		{Path: "a", Kind: content.Deleted},
		{Path: "a/x", Kind: content.Added},
		{Path: "gone/x", Kind: content.Deleted},
		{Path: "new/y", Kind: content.Added},
		{Path: "swap", Kind: content.Added},
		{Path: "swap/in", Kind: content.Deleted},
		{Path: "z", Kind: content.Modified},
	}
	for _, limit := range []int{1, 3, 100} {
		got := wholeComparison(t, r, content.CompareParams{Base: base, Head: head, Limit: limit})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes by %d (-want +got):\n%s", limit, diff)
		}
	}
	below := wholeComparison(t, r, content.CompareParams{Base: base, Head: head, Path: "gone", Limit: 10})
	if diff := cmp.Diff([]content.Change{{Path: "gone/x", Kind: content.Deleted}}, below); diff != "" {
		t.Errorf("changes below gone (-want +got):\n%s", diff)
	}
	for _, p := range []content.CompareParams{
		{Base: head, Head: head, Limit: 10},
		{Base: base, Head: head, Path: "nowhere", Limit: 10},
	} {
		if got := wholeComparison(t, r, p); len(got) != 0 {
			t.Errorf("got changes %v for %+v, want none", got, p)
		}
	}
	absent := strings.Repeat("1", len(base))
	for _, p := range []content.CompareParams{{Base: absent, Head: head, Limit: 1}, {Base: base, Head: absent, Limit: 1}} {
		if _, err := r.Compare(t.Context(), p); !errors.Is(err, content.ErrCommitNotFound) {
			t.Errorf("got %v for %+v, want ErrCommitNotFound", err, p)
		}
	}
}

// wholeComparison reads changes in pieces.
func wholeComparison(t *testing.T, r content.Reader, p content.CompareParams) []content.Change {
	t.Helper()
	var all []content.Change
	for {
		piece, err := r.Compare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, piece...)
		if len(piece) < p.Limit {
			return all
		}
		p.After = piece[len(piece)-1].Path
	}
}
