// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/leatdev/leat/services/gitcache/internal/store"
)

var _ store.Walker = objects{}

// Reachable implements [store.Walker].
func (objects) Reachable(ctx context.Context, dir string, tips []string, visit func(id string)) error {
	storage := openStorage(dir)
	defer func() { _ = storage.Close() }()
	w := &walk{ctx: ctx, storage: storage, seen: map[plumbing.Hash]bool{}, visit: visit}
	for _, tip := range tips {
		hash := plumbing.NewHash(tip)
		if errors.Is(storage.HasEncodedObject(hash), plumbing.ErrObjectNotFound) {
			continue
		}
		w.queue = append(w.queue, hash)
		if err := w.run(); err != nil {
			return fmt.Errorf("walk from %s: %w", tip, damaged(err))
		}
	}
	return nil
}

// walk visits every object that others lead to, once.
type walk struct {
	ctx     context.Context //nolint:containedctx // lives as long as one call
	storage *filesystem.Storage
	seen    map[plumbing.Hash]bool
	queue   []plumbing.Hash // tags, commits and what tags name; trees are walked at once
	visit   func(id string)
}

func (w *walk) enter(hash plumbing.Hash) bool {
	if w.seen[hash] {
		return false
	}
	w.seen[hash] = true
	w.visit(hash.String())
	return true
}

func (w *walk) run() error {
	for len(w.queue) > 0 {
		if w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		hash := w.queue[len(w.queue)-1]
		w.queue = w.queue[:len(w.queue)-1]
		if !w.enter(hash) {
			continue
		}
		encoded, err := w.storage.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return err
		}
		if err := w.follow(encoded); err != nil {
			return err
		}
	}
	return nil
}

// follow goes on from an object that was entered.
func (w *walk) follow(encoded plumbing.EncodedObject) error {
	switch encoded.Type() {
	case plumbing.CommitObject:
		commit, err := object.DecodeCommit(w.storage, encoded)
		if err != nil {
			return err
		}
		w.queue = append(w.queue, commit.ParentHashes...)
		if w.enter(commit.TreeHash) {
			return w.tree(commit.TreeHash, maxDepth)
		}
	case plumbing.TagObject:
		tag, err := object.DecodeTag(w.storage, encoded)
		if err != nil {
			return err
		}
		w.queue = append(w.queue, tag.Target)
	case plumbing.TreeObject: // a tag may name one
		return w.tree(encoded.Hash(), maxDepth)
	case plumbing.BlobObject, plumbing.AnyObject, plumbing.InvalidObject, plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
	}
	return nil
}

// tree goes through a tree that was entered. Blobs are not read.
func (w *walk) tree(hash plumbing.Hash, depth int) error {
	if depth == 0 {
		return fmt.Errorf("more than %d levels of trees", maxDepth)
	}
	tree, err := object.GetTree(w.storage, hash)
	if err != nil {
		return err
	}
	for _, e := range tree.Entries {
		if e.Mode == filemode.Submodule || !w.enter(e.Hash) || e.Mode != filemode.Dir {
			continue
		}
		if err := w.tree(e.Hash, depth-1); err != nil {
			return err
		}
	}
	return nil
}
