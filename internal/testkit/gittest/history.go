// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gittest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// HistoryParams sets what [Repo.History] makes.
type HistoryParams struct {
	// Seed makes another history of the same kind.
	Seed uint64
	// Commits is the minimum number of commits. A merge may add two.
	Commits int
}

// History fills an empty repository with a made-up history, as bad as real ones get: files and
// folders that are renamed, copied, deleted, changed in mode and turned into one another; symbolic
// links, some of them leading out of the tree; submodules; merges, criss-cross and of several
// branches, also of unrelated ones; empty commits; a blob of some MiB; and names that are long,
// sort in surprising ways, or are not what programs expect of a name. Everything below the folder
// "tidy" can be in a bundle; below "wild" anything is possible. The same parameters make the same
// ids everywhere.
func (r *Repo) History(t testing.TB, p HistoryParams) {
	t.Helper()
	h := &historian{rand: rand.New(rand.NewPCG(p.Seed, 0))}
	h.root("main")
	for len(h.commits) < p.Commits {
		h.step()
	}
	h.tags()
	r.Import(t, &h.script)
}

// historian writes a history as a script for git fast-import.
type historian struct {
	rand    *rand.Rand
	script  bytes.Buffer
	commits []tree   // of the script; the ID of the commit with mark n is at n-1
	heads   []branch // at least one
	imports int
}

type branch struct {
	name string
	mark int
}

// tree is a whole worktree by path. The tree of a commit does not change any more.
type tree map[string]File

const (
	modeSubmodule = "160000"
	fewest, most  = 12, 45 // entries of a tree, roughly
)

// set puts an entry at path, and removes entries that conflict with it.
func (w tree) set(path string, f File) {
	maps.DeleteFunc(w, func(other string, _ File) bool {
		return strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/")
	})
	w[path] = f
}

// step makes a commit, or a few.
func (h *historian) step() {
	switch n := h.rand.IntN(100); {
	case n < 78:
		h.advance()
	case n < 88:
		h.merge(2)
	case n < 91:
		h.merge(3)
	case n < 94:
		h.crissCross()
	case n < 98:
		h.fork()
	default:
		h.imports++
		h.root(fmt.Sprintf("import-%d", h.imports))
	}
}

func (h *historian) root(name string) {
	w := tree{}
	for range fewest {
		h.add(w)
	}
	h.heads = append(h.heads, branch{name, h.commit(name, w)})
}

// advance changes a branch a little, or not at all.
func (h *historian) advance() {
	b := &h.heads[h.rand.IntN(len(h.heads))]
	w := maps.Clone(h.commits[b.mark-1])
	for range h.rand.IntN(5) {
		h.change(w)
	}
	b.mark = h.commit(b.name, w, b.mark)
}

func (h *historian) fork() {
	const enough = 8
	from := h.heads[h.rand.IntN(len(h.heads))]
	if len(h.heads) >= enough {
		h.merge(2)
		return
	}
	name := fmt.Sprintf("topic/%d", len(h.commits))
	w := maps.Clone(h.commits[from.mark-1])
	h.change(w)
	h.heads = append(h.heads, branch{name, h.commit(name, w, from.mark)})
}

// merge brings other branches into one.
func (h *historian) merge(parents int) {
	if len(h.heads) < parents {
		h.advance()
		return
	}
	order := h.rand.Perm(len(h.heads))[:parents]
	b := &h.heads[order[0]]
	marks := make([]int, 0, parents)
	for _, i := range order {
		marks = append(marks, h.heads[i].mark)
	}
	b.mark = h.commit(b.name, h.blend(marks), marks...)
}

// crissCross merges two branches into each other, each as it was before.
func (h *historian) crissCross() {
	if len(h.heads) < 2 {
		h.advance()
		return
	}
	order := h.rand.Perm(len(h.heads))
	a, b := &h.heads[order[0]], &h.heads[order[1]]
	ours, theirs := []int{a.mark, b.mark}, []int{b.mark, a.mark}
	a.mark = h.commit(a.name, h.blend(ours), ours...)
	b.mark = h.commit(b.name, h.blend(theirs), theirs...)
}

// blend takes some entries of every parent, as people who resolve conflicts do.
func (h *historian) blend(marks []int) tree {
	w := maps.Clone(h.commits[marks[0]-1])
	for _, mark := range marks[1:] {
		other := h.commits[mark-1]
		for _, path := range slices.Sorted(maps.Keys(other)) {
			if h.rand.IntN(3) == 0 {
				w.set(path, other[path])
			}
		}
	}
	h.shrink(w)
	return w
}

// commit writes a commit with the tree w, as the difference to its first parent, and returns its
// mark.
func (h *historian) commit(name string, w tree, parents ...int) int {
	mark := len(h.commits) + 1
	message := fmt.Sprintf("Commit %d\n\nof %s", mark, name)
	fmt.Fprintf(&h.script, "commit refs/heads/%s\nmark :%d\nauthor Ä. Author <a@leat.invalid> %d +0530\n", name, mark, firstCommit)
	fmt.Fprintf(&h.script, "committer %s <%s> %d +0000\ndata %d\n%s\n",
		authorName, authorEmail, firstCommit+mark, len(message), message)
	before := tree{}
	for i, parent := range parents {
		word := "merge"
		if i == 0 {
			word, before = "from", h.commits[parent-1]
		}
		fmt.Fprintf(&h.script, "%s :%d\n", word, parent)
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, kept := w[path]; !kept {
			fmt.Fprintf(&h.script, "D %s\n", quote(path))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(w)) {
		if w[path] != before[path] {
			h.modify(path, w[path])
		}
	}
	h.commits = append(h.commits, w)
	return mark
}

func (h *historian) modify(path string, f File) {
	if f.mode == modeSubmodule {
		fmt.Fprintf(&h.script, "M %s %s %s\n", f.mode, f.content, quote(path))
		return
	}
	fmt.Fprintf(&h.script, "M %s inline %s\ndata %d\n%s\n", f.mode, quote(path), len(f.content), f.content)
}

func (h *historian) tags() {
	for i := range 20 {
		fmt.Fprintf(&h.script, "tag v1.%d.0\nfrom :%d\ntagger %s <%s> %d +0000\ndata 3\ntag\n",
			i, 1+h.rand.IntN(len(h.commits)), authorName, authorEmail, firstCommit)
	}
}
