// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// List implements [content.Reader].
func (r *reader) List(_ context.Context, tree string) ([]content.Entry, error) {
	found, err := r.entries(plumbing.NewHash(tree))
	if err != nil {
		return nil, err
	}
	entries := make([]content.Entry, len(found))
	for i, e := range found {
		entries[i] = content.Entry{Name: e.Name, Kind: kindOf(e.Mode), ID: e.Hash.String()}
	}
	return entries, nil
}

func kindOf(mode filemode.FileMode) content.Kind {
	switch mode {
	case filemode.Dir:
		return content.KindFolder
	case filemode.Submodule:
		return content.KindSubmodule
	case filemode.Executable:
		return content.KindExecutable
	case filemode.Symlink:
		return content.KindSymlink
	case filemode.Regular, filemode.Deprecated, filemode.Empty:
	}
	return content.KindFile
}

// Blob implements [content.Reader].
func (r *reader) Blob(_ context.Context, id string) (content.File, error) {
	file, err := r.blob(plumbing.NewHash(id))
	if err != nil {
		return content.File{}, fmt.Errorf("read blob %s: %w", id, err)
	}
	return file, nil
}

// Absent implements [content.Reader]. Mirrors are never partial here.
func (r *reader) Absent(context.Context, []string) ([]string, error) { return nil, nil }

// File implements [content.Reader].
func (r *reader) File(_ context.Context, commit, path string) (content.File, error) {
	entry, err := r.entryAt(commit, path)
	if errors.Is(err, content.ErrPathNotFound) || (err == nil && !entry.Mode.IsFile()) {
		return content.File{}, &content.PathError{Path: path, Want: "file"}
	}
	if err != nil {
		return content.File{}, err
	}
	file, err := r.blob(entry.Hash)
	if err != nil {
		return content.File{}, fmt.Errorf("read %q: %w", path, err)
	}
	return file, nil
}

// Object implements [content.Reader].
func (r *reader) Object(_ context.Context, id string) (content.Object, error) {
	if !plumbing.IsHash(id) {
		return content.Object{}, fmt.Errorf("%w: %q is no id", content.ErrCommitNotFound, id)
	}
	encoded, err := r.storage.EncodedObject(plumbing.AnyObject, plumbing.NewHash(id))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return content.Object{}, fmt.Errorf("%w: %s", content.ErrCommitNotFound, id)
	}
	if err != nil {
		return content.Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	kind := content.ObjectKind(encoded.Type().String())
	if (kind != content.KindCommit && kind != content.KindTag) || encoded.Size() > content.MaxObject {
		return content.Object{}, nil
	}
	body, err := encoded.Reader()
	if err != nil {
		return content.Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return content.Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	return content.Object{Kind: kind, Data: data}, nil
}
