// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"container/heap"
	"context"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// walk goes through commits and all that they descend from, newest first. It reads a commit when it
// is added, because only then is its time known, and keeps no message of a commit that waits: a
// history may be wide. A commit that a walk has returned is remembered by its id alone.
type walk struct {
	reader  *Reader
	seen    map[string]bool
	waiting queue
	added   int
}

func (r *Reader) walk() *walk { return &walk{reader: r, seen: map[string]bool{}} }

// node is a commit that is visited once.
type node struct {
	id, tree string
	parents  []string
	seconds  int64 // of the committer's time
	order    int
}

// add makes a commit one to visit, once. Another commit named it, so that its absence is damage.
func (w *walk) add(ctx context.Context, id string) error {
	if w.seen[id] {
		return nil
	}
	w.seen[id] = true
	n, err := w.reader.node(ctx, id)
	if err != nil {
		return err
	}
	n.order = w.added
	w.added++
	heap.Push(&w.waiting, n)
	return nil
}

// next returns the next commit; false at the end of the history.
func (w *walk) next(ctx context.Context) (n node, more bool, err error) {
	if len(w.waiting) == 0 {
		return node{}, false, nil
	}
	n, _ = heap.Pop(&w.waiting).(node)
	for _, parent := range n.parents {
		if err := w.add(ctx, parent); err != nil {
			return node{}, false, err
		}
	}
	return n, true, nil
}

func (r *Reader) node(ctx context.Context, id string) (node, error) {
	c, err := r.namedCommit(ctx, id)
	if err != nil {
		return node{}, err
	}
	return node{id: id, tree: c.tree, parents: c.Parents, seconds: c.CommitTime.Unix()}, nil
}

// namedCommit reads a commit that another object names.
func (r *Reader) namedCommit(ctx context.Context, id string) (commit, error) {
	data, err := r.readNamed(ctx, id, kindCommit)
	if err != nil {
		return commit{}, err
	}
	return parseCommit(id, data)
}

// queue is a heap of commits, the newest first. Of one time, the first that was added is first, as
// "git log" has it.
type queue []node

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { n, _ := x.(node); *q = append(*q, n) }

func (q queue) Less(i, j int) bool {
	if q[i].seconds != q[j].seconds {
		return q[i].seconds > q[j].seconds
	}
	return q[i].order < q[j].order
}

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

const (
	// maxScanned bounds the commits that one call of Log visits: with a path that seldom changes it
	// returns early, and the caller continues from there.
	maxScanned = 5000
	// maxLogBytes bounds the messages that one call returns, except the last one.
	maxLogBytes = 4 << 20
)

// Log implements [content.Reader].
func (r *Reader) Log(ctx context.Context, p content.LogParams) (content.Log, error) {
	if _, err := r.commit(ctx, p.From); err != nil { // which nothing names, so that its absence is no damage
		return content.Log{}, err
	}
	w, at := r.walk(), &tracker{reader: r, path: p.Path, places: map[string]place{}}
	if err := w.add(ctx, p.From); err != nil {
		return content.Log{}, err
	}
	var log content.Log
	size := 0
	for i := 0; ; i++ {
		full := len(log.Commits) == p.Limit || i == p.Skip+maxScanned || size > maxLogBytes
		if full && len(w.waiting) > 0 {
			log.Next = i
		}
		if full {
			return log, nil
		}
		n, more, err := w.next(ctx)
		if err != nil || !more || n.id == p.Until {
			return log, err
		}
		if i < p.Skip {
			continue
		}
		touches, err := at.touches(ctx, n)
		if err != nil {
			return content.Log{}, err
		}
		if touches {
			c, err := r.namedCommit(ctx, n.id)
			if err != nil {
				return content.Log{}, err
			}
			log.Commits = append(log.Commits, c.Commit)
			size += len(c.Message)
		}
	}
}

// place is the entry of a commit at a path; the zero place is none. A file that only becomes
// executable has changed.
type place struct {
	mode uint32
	raw  string
}

// tracker finds out which commits change the content at a path. It remembers the place of every
// commit that it has visited, because most commits are a parent as well. Log bounds how many there
// are.
type tracker struct {
	reader *Reader
	path   string
	places map[string]place // by commit
}

// touches reports whether a commit holds something else at the path than each of its parents.
func (t *tracker) touches(ctx context.Context, n node) (bool, error) {
	if t.path == "" {
		return true, nil
	}
	mine, err := t.find(ctx, n)
	if err != nil {
		return false, err
	}
	for _, id := range n.parents {
		theirs, known := t.places[id]
		if !known {
			parent, err := t.reader.node(ctx, id)
			if err != nil {
				return false, err
			}
			if theirs, err = t.find(ctx, parent); err != nil {
				return false, err
			}
		}
		if theirs == mine {
			return false, nil
		}
	}
	return len(n.parents) > 0 || mine != place{}, nil
}

// find returns the place of a commit at the path.
func (t *tracker) find(ctx context.Context, n node) (place, error) {
	if known, ok := t.places[n.id]; ok {
		return known, nil
	}
	e, err := t.reader.descend(ctx, n.tree, t.path)
	if err != nil {
		return place{}, err
	}
	found := place{mode: e.mode, raw: string(e.raw)}
	t.places[n.id] = found
	return found, nil
}

// maxAncestors bounds, for each commit, the history that Ancestors goes through: where a rewritten
// branch may meet the old one.
const maxAncestors = 100

// Ancestors gives commits and a part of their history to add, newest first, until add returns
// false. A commit that is not there, and the commits behind it, are left out.
func (r *Reader) Ancestors(ctx context.Context, commits []string, add func(id string) bool) error {
	w := r.walk()
	for _, id := range commits {
		_ = w.add(ctx, id)
	}
	for range maxAncestors * len(commits) {
		n, more, _ := w.next(ctx)
		if !more || !add(n.id) {
			break
		}
	}
	return context.Cause(ctx)
}
