// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// maxScanned bounds the commits that one call looks at: with a path that seldom changes it returns early, and the caller
// goes on from there.
const maxScanned = 5000

// maxLogBytes bounds the messages that one call returns.
const maxLogBytes = 4 << 20

// Log implements [content.Reader].
func (r *reader) Log(ctx context.Context, p content.LogParams) (content.Log, error) {
	start, err := r.commit(p.From)
	if err != nil {
		return content.Log{}, err
	}
	commits := object.NewCommitIterCTime(start, nil, nil)
	defer commits.Close()
	var log content.Log
	size := 0
	for at := 0; ; at++ {
		if ctx.Err() != nil {
			return content.Log{}, context.Cause(ctx)
		}
		if len(log.Commits) == p.Limit || at == p.Skip+maxScanned || size > maxLogBytes {
			log.Next = at
			break
		}
		c, err := commits.Next()
		if errors.Is(err, io.EOF) {
			return log, nil
		}
		if err != nil {
			return content.Log{}, fmt.Errorf("walk history: %w", damaged(err))
		}
		if at < p.Skip {
			continue
		}
		touches, err := r.touches(c, p.Path)
		if err != nil {
			return content.Log{}, err
		}
		if touches {
			log.Commits = append(log.Commits, describe(c))
			size += len(c.Message)
		}
	}
	if _, err := commits.Next(); errors.Is(err, io.EOF) {
		log.Next = 0
	}
	return log, nil
}

// touches tells whether a commit holds something else at path than each of its parents.
func (r *reader) touches(c *object.Commit, path string) (bool, error) {
	if path == "" {
		return true, nil
	}
	mine, err := r.placeAt(c.TreeHash, path)
	if err != nil {
		return false, err
	}
	if len(c.ParentHashes) == 0 {
		return mine != place{}, nil
	}
	for _, id := range c.ParentHashes {
		parent, err := object.GetCommit(r.storage, id)
		if err != nil {
			return false, fmt.Errorf("read commit %s: %w", id, damaged(err))
		}
		theirs, err := r.placeAt(parent.TreeHash, path)
		if err != nil {
			return false, err
		}
		if theirs == mine {
			return false, nil
		}
	}
	return true, nil
}

// place is what stands at a path; the zero place is nothing.
type place struct {
	id   plumbing.Hash
	mode filemode.FileMode // a file that only becomes executable has changed
}

func (r *reader) placeAt(root plumbing.Hash, path string) (place, error) {
	entry, err := r.descend(root, path)
	if errors.Is(err, content.ErrPathNotFound) {
		return place{}, nil
	}
	return place{entry.Hash, entry.Mode}, err
}

// Compare implements [content.Reader].
func (r *reader) Compare(ctx context.Context, p content.CompareParams) ([]content.Change, error) {
	base, err := r.sideOf(p.Base, p.Path)
	if err != nil {
		return nil, err
	}
	head, err := r.sideOf(p.Head, p.Path)
	if err != nil {
		return nil, err
	}
	c := &comparison{ctx: ctx, reader: r, params: p}
	prefix := p.Path
	if prefix != "" {
		prefix += "/"
	}
	if err := c.trees(base, head, prefix, maxDepth); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return c.changes, nil
}

// sideOf returns the tree at path, zero where the commit has no folder there.
func (r *reader) sideOf(commit, path string) (plumbing.Hash, error) {
	entry, err := r.entryAt(commit, path)
	if errors.Is(err, content.ErrPathNotFound) || (err == nil && entry.Mode != filemode.Dir) {
		return plumbing.ZeroHash, nil
	}
	return entry.Hash, err
}

var errEnough = errors.New("limit reached")

// comparison walks two trees side by side and skips what is equal.
type comparison struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call
	reader  *reader
	params  content.CompareParams
	changes []content.Change
}

func (c *comparison) trees(base, head plumbing.Hash, prefix string, depth int) error {
	switch {
	case base == head:
		return nil
	case depth == 0:
		return fmt.Errorf("compare trees: more than %d levels at %q", maxDepth, prefix)
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	}
	old, err := c.entries(base)
	if err != nil {
		return err
	}
	young, err := c.entries(head)
	if err != nil {
		return err
	}
	for len(old) > 0 || len(young) > 0 {
		var a, b *object.TreeEntry
		if len(young) == 0 || (len(old) > 0 && sortKey(old[0]) <= sortKey(young[0])) {
			a = &old[0]
		}
		if len(old) == 0 || (len(young) > 0 && sortKey(young[0]) <= sortKey(old[0])) {
			b = &young[0]
		}
		if a != nil {
			old = old[1:]
		}
		if b != nil {
			young = young[1:]
		}
		if err := c.pair(a, b, prefix, depth); err != nil {
			return err
		}
	}
	return nil
}

// sortKey is how Git orders the entries of a tree. A file and a folder of one name have different keys: the one is
// deleted and the other added.
func sortKey(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

func (c *comparison) entries(hash plumbing.Hash) ([]object.TreeEntry, error) {
	if hash.IsZero() {
		return nil, nil
	}
	return c.reader.entries(hash)
}

// pair compares what stands under one name; nil is nothing.
func (c *comparison) pair(a, b *object.TreeEntry, prefix string, depth int) error {
	present := a
	if present == nil {
		present = b
	}
	if present.Mode == filemode.Dir {
		return c.trees(hashOf(a), hashOf(b), prefix+present.Name+"/", depth-1)
	}
	path := prefix + present.Name
	switch {
	case a == nil:
		return c.add(path, content.Added)
	case b == nil:
		return c.add(path, content.Deleted)
	case a.Hash != b.Hash || a.Mode != b.Mode:
		return c.add(path, content.Modified)
	}
	return nil
}

func hashOf(e *object.TreeEntry) plumbing.Hash {
	if e == nil {
		return plumbing.ZeroHash
	}
	return e.Hash
}

func (c *comparison) add(path string, kind content.ChangeKind) error {
	if path <= c.params.After {
		return nil
	}
	if len(c.changes) == c.params.Limit {
		return errEnough
	}
	c.changes = append(c.changes, content.Change{Path: path, Kind: kind})
	return nil
}
