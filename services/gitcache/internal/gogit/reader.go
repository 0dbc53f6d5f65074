// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// maxDepth bounds how deep trees may be nested; content that needs more is hostile.
const maxDepth = 256

// reader reads one generation through a store of its own.
type reader struct {
	storage *filesystem.Storage
	packs   *pack.Reader // nil until first used
}

// Close implements [content.Reader].
func (r *reader) Close() error {
	if r.packs == nil {
		return r.storage.Close()
	}
	return errors.Join(r.packs.Close(), r.storage.Close())
}

// Commit implements [content.Reader].
func (r *reader) Commit(_ context.Context, id string) (content.Commit, error) {
	c, err := r.commit(id)
	if err != nil {
		return content.Commit{}, err
	}
	return describe(c), nil
}

func (r *reader) commit(id string) (*object.Commit, error) {
	if !plumbing.IsHash(id) {
		return nil, fmt.Errorf("%w: %q is no commit id", content.ErrCommitNotFound, id)
	}
	hash := plumbing.NewHash(id)
	if c, ok := r.packedCommit(hash); ok {
		return c, nil
	}
	c, err := object.GetCommit(r.storage, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, fmt.Errorf("%w: %s", content.ErrCommitNotFound, id)
	}
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", id, err)
	}
	return c, nil
}

func describe(c *object.Commit) content.Commit {
	d := content.Commit{
		ID: c.Hash.String(), AuthorName: c.Author.Name, AuthorEmail: c.Author.Email,
		AuthorTime: c.Author.When, CommitTime: c.Committer.When, Message: c.Message,
	}
	for _, p := range c.ParentHashes {
		d.Parents = append(d.Parents, p.String())
	}
	return d
}

// Tree implements [content.Reader].
func (r *reader) Tree(_ context.Context, commit, path string) (string, error) {
	entry, err := r.entryAt(commit, path)
	if err != nil {
		return "", err
	}
	if entry.Mode != filemode.Dir {
		return "", &content.PathError{Path: path, Want: "folder"}
	}
	return entry.Hash.String(), nil
}

// entryAt returns what the commit holds at path. A missing path is a *content.PathError for a folder.
func (r *reader) entryAt(commit, path string) (object.TreeEntry, error) {
	c, err := r.commit(commit)
	if err != nil {
		return object.TreeEntry{}, err
	}
	return r.descend(c.TreeHash, path)
}

func (r *reader) descend(root plumbing.Hash, path string) (object.TreeEntry, error) {
	at := object.TreeEntry{Mode: filemode.Dir, Hash: root}
	if path == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if at.Mode != filemode.Dir {
			return object.TreeEntry{}, &content.PathError{Path: path, Want: "folder"}
		}
		entries, err := r.entries(at.Hash)
		if err != nil {
			return object.TreeEntry{}, err
		}
		found, ok := find(entries, name)
		if !ok {
			return object.TreeEntry{}, &content.PathError{Path: path, Want: "folder"}
		}
		at = found
	}
	return at, nil
}

func find(entries []object.TreeEntry, name string) (object.TreeEntry, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e, true
		}
	}
	return object.TreeEntry{}, false
}

func damaged(err error) error {
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return errors.Join(content.ErrDamaged, err)
	}
	return err
}

// Walk implements [content.Reader]. Git keeps the entries of a tree in the order that their full paths have, as if the
// name of a folder ended with a slash; walking depth first therefore visits rising paths.
func (r *reader) Walk(ctx context.Context, tree string, visit func(content.Entry) error) error {
	return r.walk(ctx, plumbing.NewHash(tree), "", maxDepth, visit)
}

func (r *reader) walk(ctx context.Context, hash plumbing.Hash, prefix string, depth int, visit func(content.Entry) error) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", maxDepth, prefix)
	}
	entries, err := r.entries(hash)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		path := prefix + e.Name
		if e.Mode == filemode.Dir {
			err = r.walk(ctx, e.Hash, path+"/", depth-1, visit)
		} else {
			err = r.visitLeaf(e, path, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) visitLeaf(e object.TreeEntry, path string, visit func(content.Entry) error) error {
	leaf := content.Entry{Path: path}
	switch e.Mode {
	case filemode.Submodule:
		leaf.Kind = content.KindSubmodule
		return visit(leaf)
	case filemode.Executable:
		leaf.Kind = content.KindExecutable
	case filemode.Symlink:
		leaf.Kind = content.KindSymlink
	case filemode.Regular, filemode.Deprecated, filemode.Empty, filemode.Dir: // folders do not come here
		leaf.Kind = content.KindFile
	}
	blob, err := r.blob(e.Hash)
	if err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	leaf.Size, leaf.Open = blob.size, blob.open
	return visit(leaf)
}

// File implements [content.Reader].
func (r *reader) File(_ context.Context, commit, path string) (content.File, error) {
	entry, err := r.entryAt(commit, path)
	if errors.Is(err, content.ErrPathNotFound) || (err == nil && !entry.Mode.IsFile()) {
		return content.File{}, &content.PathError{Path: path, Want: "file"}
	}
	if err != nil {
		return content.File{}, err
	}
	b, err := r.blob(entry.Hash)
	if err != nil {
		return content.File{}, fmt.Errorf("read %q: %w", path, err)
	}
	body, err := b.open()
	if err != nil {
		return content.File{}, fmt.Errorf("read %q: %w", path, err)
	}
	return content.File{Size: b.size, ReadCloser: body}, nil
}
