// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/history"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// objects is a repository in memory, which holds what no git would write.
type objects map[string]pack.Object

func (o objects) add(kind, data string) (id string) {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(data), data))
	id = hex.EncodeToString(sum[:])
	o[id] = pack.Object{Kind: kind, Data: []byte(data)}
	return id
}

// treeLine is one entry of a tree.
func treeLine(mode, name, id string) string {
	raw, _ := hex.DecodeString(id)
	return mode + " " + name + "\x00" + string(raw)
}

func (o objects) commit(tree string, seconds int, parents ...string) string {
	lines := []string{"tree " + tree}
	for _, parent := range parents {
		lines = append(lines, "parent "+parent)
	}
	lines = append(lines, fmt.Sprintf("author A <a@example.invalid> %d +0000\ncommitter C <c@example.invalid> %d +0000\n\nmessage\n", seconds, seconds))
	return o.add("commit", strings.Join(lines, "\n"))
}

func (o objects) Kind(id string) (string, error) { return o[id].Kind, nil }

func (o objects) Read(id string, limit int64) (pack.Object, error) {
	object, ok := o[id]
	switch {
	case !ok:
		return pack.Object{}, fmt.Errorf("%w: %s", pack.ErrNotFound, id)
	case int64(len(object.Data)) > limit:
		return pack.Object{}, pack.ErrTooLarge
	}
	return object, nil
}

func (o objects) Prefixed(prefix string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o)), func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

func (o objects) Close() error { return nil }

func (o objects) open() *history.Reader { return history.New(o, history.Params{}) }

// TestMalformedIsNotDamaged reads what an author has made wrong, and what a mirror has lost. Only
// the latter is repaired by another fetch.
func TestMalformedIsNotDamaged(t *testing.T) {
	t.Parallel()
	o := objects{}
	absent := strings.Repeat("1", 40)
	blob := o.add("blob", "x")
	good := o.add("tree", treeLine("100644", "a", blob))
	for name, test := range map[string]struct {
		commit string
		want   error
	}{
		"no tree":             {o.add("commit", "author A <a> 1 +0000\n\nx"), content.ErrMalformed},
		"short tree":          {o.add("commit", "tree 1234\n\nx"), content.ErrMalformed},
		"wide tree":           {o.add("commit", "tree "+strings.Repeat("1", 64)+"\n\nx"), content.ErrMalformed},
		"tree in the end":     {o.add("commit", "author A <a> 1 +0000\ntree "+good+"\n\nx"), content.ErrMalformed},
		"bad parent":          {o.add("commit", "tree "+good+"\nparent HEAD\n\nx"), content.ErrMalformed},
		"nothing":             {o.add("commit", ""), content.ErrMalformed},
		"blob as tree":        {o.commit(blob, 1), content.ErrMalformed},
		"blob as folder":      {o.commit(o.add("tree", treeLine("40000", "a", blob)), 1), content.ErrMalformed},
		"tree as file":        {o.commit(o.add("tree", treeLine("100644", "a", good)), 1), content.ErrMalformed},
		"cut off tree":        {o.commit(o.add("tree", treeLine("100644", "a", blob)[:20]), 1), content.ErrMalformed},
		"tree without a mode": {o.commit(o.add("tree", treeLine("", "a", blob)), 1), content.ErrMalformed},
		"tree with a bad one": {o.commit(o.add("tree", treeLine("100649", "a", blob)), 1), content.ErrMalformed},
		"tree without a name": {o.commit(o.add("tree", treeLine("100644", "", blob)), 1), content.ErrMalformed},
		"no such tree":        {o.commit(absent, 1), content.ErrDamaged},
		"no such folder":      {o.commit(o.add("tree", treeLine("40000", "a", absent)), 1), content.ErrDamaged},
		"no such file":        {o.commit(o.add("tree", treeLine("100644", "a", absent)), 1), content.ErrDamaged},
		"no such parent":      {o.commit(good, 1, absent), content.ErrDamaged},
		"tree as parent":      {o.commit(good, 1, good), content.ErrMalformed},
	} {
		err := readAll(t.Context(), o.open(), test.commit)
		if !errors.Is(err, test.want) || errors.Is(err, content.ErrMalformed) == errors.Is(err, content.ErrDamaged) {
			t.Errorf("%s: got %v, want that %v", name, err, test.want)
		}
	}
}

// readAll reads a commit with one folder or file, "a", and its history.
func readAll(ctx context.Context, r *history.Reader, commit string) error {
	if _, err := r.Log(ctx, content.LogParams{From: commit, Limit: 10}); err != nil {
		return err
	}
	tree, err := r.Tree(ctx, commit, "")
	if err != nil {
		return err
	}
	entries, err := r.List(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			_, err = r.List(ctx, e.ID)
		} else {
			_, err = r.Blob(ctx, e.ID)
		}
	}
	return err
}

// TestEmptyTree is one that git knows without storing it.
func TestEmptyTree(t *testing.T) {
	t.Parallel()
	o := objects{}
	empty := o.add("tree", "")
	base, head := o.commit(empty, 1), o.commit(o.add("tree", treeLine("100644", "a", o.add("blob", "x"))), 2)
	delete(o, empty)
	r := o.open()
	if entries, err := r.List(t.Context(), empty); len(entries) != 0 || err != nil {
		t.Errorf("got %v (%v), want nothing", entries, err)
	}
	changes, err := r.Compare(t.Context(), content.CompareParams{Base: base, Head: head, Limit: 10})
	if err != nil || !slices.Equal(changes, []content.Change{{Path: "a", Kind: content.Added}}) {
		t.Errorf("got %v (%v), want one file added", changes, err)
	}
	visited := map[string]bool{}
	visit := func(id string) bool { seen := visited[id]; visited[id] = true; return !seen }
	if err := r.Reachable(t.Context(), []string{base, head}, visit); err != nil || len(visited) != 5 {
		t.Errorf("got %d objects (%v), want 5", len(visited), err)
	}
}

// TestDeepTrees meets a tree with more levels than any honest content has.
func TestDeepTrees(t *testing.T) {
	t.Parallel()
	o := objects{}
	tree := o.add("tree", treeLine("100644", "a", o.add("blob", "x")))
	for range 300 {
		tree = o.add("tree", treeLine("40000", "d", tree))
	}
	base, head := o.commit(o.add("tree", ""), 1), o.commit(tree, 2)
	r := o.open()
	if _, err := r.Compare(t.Context(), content.CompareParams{Base: base, Head: head, Limit: 10}); !errors.Is(err, content.ErrMalformed) {
		t.Errorf("got %v from comparing, want ErrMalformed", err)
	}
	if err := r.Reachable(t.Context(), []string{head}, func(string) bool { return true }); !errors.Is(err, content.ErrMalformed) {
		t.Errorf("got %v from what is reachable, want ErrMalformed", err)
	}
}

// TestLogIsBounded goes through a long history in pieces: with a path that changed long ago, and
// with long messages.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	o := objects{}
	tree, empty := o.add("tree", treeLine("100644", "a", o.add("blob", "x"))), o.add("tree", "")
	const commits = 12_000
	last := o.commit(empty, 0)
	first := o.commit(tree, 1, last)
	last = first
	for i := range commits {
		last = o.commit(tree, 2+i, last)
	}
	r := o.open()
	var found []string
	pieces := 0
	for p := (content.LogParams{From: last, Path: "a", Limit: 10}); ; pieces++ {
		piece, err := r.Log(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range piece.Commits {
			found = append(found, c.ID)
		}
		if p.Skip = piece.Next; p.Skip == 0 {
			break
		}
	}
	if !slices.Equal(found, []string{first}) || pieces != 2 {
		t.Errorf("got commits %v after %d pieces, want the one that made the file after 2", found, pieces)
	}

	data := string(o[last].Data) + strings.Repeat("x", 1<<20)
	for range 20 {
		last = o.add("commit", strings.Replace(data, "\n", "\nparent "+last+"\n", 1))
	}
	piece, err := r.Log(t.Context(), content.LogParams{From: last, Limit: 100})
	if err != nil || len(piece.Commits) != 4 || piece.Next != 4 {
		t.Errorf("got %d commits and next %d (%v), want no more messages than fit", len(piece.Commits), piece.Next, err)
	}
}

// TestOrderOfOneTime has several commits of one second: parents come in the order in which a commit
// names them.
func TestOrderOfOneTime(t *testing.T) {
	t.Parallel()
	o := objects{}
	tree := o.add("tree", "")
	root := o.commit(tree, 1)
	var parents []string
	for i := range 5 {
		parents = append(parents, o.commit(o.add("tree", treeLine("100644", fmt.Sprint(i), o.add("blob", ""))), 5, root))
	}
	merge := o.commit(tree, 5, parents...)
	log, err := o.open().Log(t.Context(), content.LogParams{From: merge, Limit: 10})
	var got []string
	for _, c := range log.Commits {
		got = append(got, c.ID)
	}
	if want := append(append([]string{merge}, parents...), root); !slices.Equal(got, want) || err != nil {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

// TestEndsWithTheContext asks everything of a reader whose caller has gone.
func TestEndsWithTheContext(t *testing.T) {
	t.Parallel()
	o := objects{}
	blob := o.add("blob", "x")
	tree := o.add("tree", treeLine("100644", "a", blob))
	commit := o.commit(tree, 1, o.commit(o.add("tree", ""), 0))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has gone")
	cancel(gone)
	r := o.open()
	for name, ask := range map[string]func() error{
		"Commit":    func() error { _, err := r.Commit(ctx, commit); return err },
		"Expand":    func() error { _, err := r.Expand(ctx, commit[:8]); return err },
		"Tree":      func() error { _, err := r.Tree(ctx, commit, "a"); return err },
		"List":      func() error { _, err := r.List(ctx, tree); return err },
		"Blob":      func() error { _, err := r.Blob(ctx, blob); return err },
		"File":      func() error { _, err := r.File(ctx, commit, "a"); return err },
		"Log":       func() error { _, err := r.Log(ctx, content.LogParams{From: commit, Limit: 1}); return err },
		"Compare":   func() error { _, err := r.Compare(ctx, content.CompareParams{Base: commit, Head: commit}); return err },
		"Reachable": func() error { return r.Reachable(ctx, []string{commit}, func(string) bool { return true }) },
		"Ancestors": func() error { return r.Ancestors(ctx, []string{commit}, func(string) bool { return true }) },
	} {
		if err := ask(); !errors.Is(err, gone) {
			t.Errorf("%s: got %v, want the context's cause", name, err)
		}
	}
}

// TestAncestors goes through a part of a long history, and leaves out missing commits.
func TestAncestors(t *testing.T) {
	t.Parallel()
	o := objects{}
	tree := o.add("tree", "")
	var ids []string
	for i := range 300 {
		ids = append(ids, o.commit(tree, i, ids[max(0, i-1):]...))
	}
	slices.Reverse(ids)
	var got []string
	add := func(id string) bool { got = append(got, id); return true }
	if err := o.open().Ancestors(t.Context(), []string{ids[0], strings.Repeat("1", 40)}, add); err != nil || !slices.Equal(got, ids[:200]) {
		t.Errorf("got %d ancestors (%v), want the newest 200 of %d", len(got), err, len(ids))
	}
}

// TestPartial reads a mirror without blobs.
func TestPartial(t *testing.T) {
	t.Parallel()
	o := objects{}
	blob, other := o.add("blob", "x"), o.add("blob", "y")
	tree := o.add("tree", treeLine("100644", "a", blob)+treeLine("100644", "b", other)+treeLine("160000", "c", strings.Repeat("2", 40)))
	commit := o.commit(tree, 1)
	tag := o.add("tag", "object "+blob+"\ntype blob\ntag t\n\nmessage")
	delete(o, blob)
	r := history.New(o, history.Params{Partial: true})
	_, err := r.File(t.Context(), commit, "a")
	if absent, ok := errors.AsType[*content.AbsentError](err); !ok || !slices.Equal(absent.IDs, []string{blob}) {
		t.Errorf("got %v, want an AbsentError", err)
	}
	if got, err := r.Absent(t.Context(), []string{blob, other, blob}); err != nil || !slices.Equal(got, []string{blob}) {
		t.Errorf("got %v (%v) absent, want %s", got, err, blob)
	}
	visited := map[string]bool{}
	visit := func(id string) bool { seen := visited[id]; visited[id] = true; return !seen }
	if err := r.Reachable(t.Context(), []string{tag, commit, strings.Repeat("1", 40)}, visit); err != nil || len(visited) != 4 || visited[blob] {
		t.Errorf("got %v (%v), want all that is there", visited, err)
	}
	lost := o.commit(tree, 2, strings.Repeat("1", 40))
	if err := r.Reachable(t.Context(), []string{lost}, visit); !errors.Is(err, content.ErrDamaged) {
		t.Errorf("got %v without a parent, want ErrDamaged", err)
	}
}
