// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package commitpack

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Brings reports whether the commit head makes exactly the given changes to its one parent, and
// that is base or one of the last commits before it, within limit. Merged into base, it has the
// same effect as a new commit. Errors are the reader's.
func Brings(ctx context.Context, r content.Reader, head, base string, changed map[string]Blobs, limit int) (bool, error) {
	c, err := r.Commit(ctx, head)
	if err != nil || len(c.Parents) != 1 {
		return false, err
	}
	parent := c.Parents[0]
	log, err := r.Log(ctx, content.LogParams{From: base, Limit: limit})
	if err != nil {
		return false, err
	}
	if parent != base && !slices.ContainsFunc(log.Commits, func(before content.Commit) bool { return before.ID == parent }) {
		return false, nil
	}
	changes, err := r.Compare(ctx, content.CompareParams{Base: parent, Head: head, Limit: len(changed) + 1})
	if err != nil || len(changes) != len(changed) {
		return false, err
	}
	for _, change := range changes {
		blobs, isWanted := changed[change.Path]
		if !isWanted || change.Kind != content.Modified {
			return false, nil
		}
		before, err := blobAt(ctx, r, parent, change.Path)
		if err != nil || before != blobs.Before {
			return false, err
		}
		after, err := blobAt(ctx, r, head, change.Path)
		if err != nil || after != blobs.After {
			return false, err
		}
	}
	return true, nil
}

// blobAt returns the id of the file that a commit has at a path, or "".
func blobAt(ctx context.Context, r content.Reader, commit, at string) (string, error) {
	folder, name := path.Split(at)
	folder = path.Clean(folder)
	if folder == "." {
		folder = ""
	}
	tree, err := r.Tree(ctx, commit, folder)
	if errors.Is(err, content.ErrPathNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	entries, err := r.List(ctx, tree)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name == name && (e.Kind == content.KindFile || e.Kind == content.KindExecutable) {
			return e.ID, nil
		}
	}
	return "", nil
}
