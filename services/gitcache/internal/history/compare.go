// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Compare implements [content.Reader]. It looks only at trees that differ between the two commits,
// so its cost depends on the change and not on the size of the repository.
func (r *Reader) Compare(ctx context.Context, p content.CompareParams) ([]content.Change, error) {
	base, err := r.entryAt(ctx, p.Base, p.Path)
	if err != nil {
		return nil, err
	}
	head, err := r.entryAt(ctx, p.Head, p.Path)
	if err != nil {
		return nil, err
	}
	c := &comparison{reader: r, params: p}
	prefix := p.Path
	if prefix != "" {
		prefix += "/"
	}
	if err := c.folders(ctx, base, head, prefix, maxDepth); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return c.changes, nil
}

var errEnough = errors.New("limit reached")

// comparison walks two trees side by side, in Git's order of names, and skips subtrees that are
// equal. A folder that became a file, or the reverse, is two changes: their keys differ.
type comparison struct {
	reader  *Reader
	params  content.CompareParams
	changes []content.Change
}

// folders compares the content of two entries. One that is not a folder has nothing below it.
func (c *comparison) folders(ctx context.Context, base, head entry, prefix string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%w: more than %d levels of trees at %.80q", content.ErrMalformed, maxDepth, prefix)
	}
	if bytes.Equal(base.raw, head.raw) || prefix < c.params.After && !strings.HasPrefix(c.params.After, prefix) {
		return nil // the same, or all of it comes before After
	}
	old, err := c.open(ctx, base)
	if err != nil {
		return err
	}
	young, err := c.open(ctx, head)
	if err != nil {
		return err
	}
	a, errA := old.next()
	b, errB := young.next()
	for errA == nil && errB == nil && (a.isThere() || b.isThere()) {
		order := bytes.Compare(a.sortKey(), b.sortKey())
		var gone, come entry
		if !b.isThere() || a.isThere() && order <= 0 {
			gone = a
		}
		if !a.isThere() || b.isThere() && order >= 0 {
			come = b
		}
		if err := c.pair(ctx, gone, come, prefix, depth); err != nil {
			return err
		}
		if gone.isThere() {
			a, errA = old.next()
		}
		if come.isThere() {
			b, errB = young.next()
		}
	}
	return errors.Join(errA, errB)
}

func (c *comparison) open(ctx context.Context, e entry) (tree, error) {
	if !e.isFolder() {
		return tree{}, nil
	}
	return c.reader.openTree(ctx, e.id())
}

// pair compares the entries under one name, on one side at least.
func (c *comparison) pair(ctx context.Context, a, b entry, prefix string, depth int) error {
	there := a
	if !there.isThere() {
		there = b
	}
	path := prefix + string(there.name)
	switch {
	case there.isFolder():
		return c.folders(ctx, a, b, path+"/", depth-1)
	case !a.isThere():
		return c.add(path, content.Added)
	case !b.isThere():
		return c.add(path, content.Deleted)
	case a.mode != b.mode || !bytes.Equal(a.raw, b.raw):
		return c.add(path, content.Modified)
	}
	return nil
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
