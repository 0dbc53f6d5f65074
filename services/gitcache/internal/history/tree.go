// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// Commit implements [content.Reader].
func (r *Reader) Commit(ctx context.Context, id string) (content.Commit, error) {
	c, err := r.commit(ctx, id)
	return c.Commit, err
}

// commit reads a commit that a caller asks for, so that its absence is not damage.
func (r *Reader) commit(ctx context.Context, id string) (commit, error) {
	if !pack.IsName(id) {
		return commit{}, fmt.Errorf("%w: %q is not a commit id", content.ErrCommitNotFound, id)
	}
	data, err := r.read(ctx, id, kindCommit)
	if errors.Is(err, pack.ErrNotFound) || errors.Is(err, errKind) {
		return commit{}, fmt.Errorf("%w: %s", content.ErrCommitNotFound, id)
	}
	if err != nil {
		return commit{}, fmt.Errorf("read commit: %w", err)
	}
	return parseCommit(id, data)
}

// Object implements [content.Reader].
func (r *Reader) Object(_ context.Context, id string) (content.Object, error) {
	kind, err := r.objects.Kind(id)
	switch {
	case err != nil:
		return content.Object{}, damaged(err)
	case kind == "":
		return content.Object{}, fmt.Errorf("%w: %q", content.ErrCommitNotFound, id)
	case kind != kindCommit && kind != kindTag:
		return content.Object{}, nil
	}
	object, err := r.objects.Read(id, content.MaxObject)
	if errors.Is(err, pack.ErrTooLarge) {
		return content.Object{}, nil
	}
	if err != nil {
		return content.Object{}, damaged(err)
	}
	return content.Object{Kind: content.ObjectKind(kind), Data: object.Data}, nil
}

// Expand implements [content.Reader]. Only commits count: a tree or a blob of the same beginning
// makes no id ambiguous.
func (r *Reader) Expand(ctx context.Context, prefix string) (string, error) {
	if strings.Trim(prefix, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w: %q is not a commit id", content.ErrCommitNotFound, prefix)
	}
	var commits []string
	for _, id := range r.objects.Prefixed(prefix) {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		kind, err := r.objects.Kind(id)
		if err != nil {
			return "", damaged(err)
		}
		if kind == kindCommit {
			commits = append(commits, id)
		}
		if len(commits) == content.MaxCandidates { // they rise, so that these are the ones to name
			break
		}
	}
	switch len(commits) {
	case 0:
		return "", fmt.Errorf("%w: %s", content.ErrCommitNotFound, prefix)
	case 1:
		return commits[0], nil
	}
	return "", &content.AmbiguousError{Prefix: prefix, Candidates: commits}
}

// Kind returns an object's kind, and "" for one that is not there. An object that cannot be read
// counts as absent, so that a fetch asks for it again.
func (r *Reader) Kind(id string) (string, error) {
	kind, err := r.objects.Kind(id)
	if errors.Is(err, pack.ErrMalformed) {
		return "", nil
	}
	return kind, err
}

// openTree reads a tree that another object names.
func (r *Reader) openTree(ctx context.Context, id string) (tree, error) {
	data, err := r.readNamed(ctx, id, kindTree)
	if errors.Is(err, pack.ErrNotFound) && isEmptyTree(id) { // which Git knows without storing it
		return tree{}, nil
	}
	if err != nil {
		return tree{}, fmt.Errorf("read tree: %w", err)
	}
	return tree{rest: data, width: len(id) / 2}, nil
}

// isEmptyTree reports whether id is the name of a tree without entries.
func isEmptyTree(id string) bool {
	return id == "4b825dc642cb6eb9a060e54bf8d69288fbee4904" || id == "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
}

// descend returns the entry at path below a tree, and the zero entry if there is none.
func (r *Reader) descend(ctx context.Context, root, path string) (entry, error) {
	raw, err := hex.DecodeString(root)
	if err != nil {
		return entry{}, fmt.Errorf("read tree: %w", err)
	}
	at := entry{mode: modeFolder, raw: raw}
	if path == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !at.isFolder() {
			return entry{}, nil
		}
		t, err := r.openTree(ctx, at.id())
		if err != nil {
			return entry{}, err
		}
		for at, err = t.next(); err == nil && at.isThere() && string(at.name) != name; at, err = t.next() {
		}
		if err != nil || !at.isThere() {
			return entry{}, err
		}
	}
	return at, nil
}

// entryAt returns what the commit holds at path.
func (r *Reader) entryAt(ctx context.Context, id, path string) (entry, error) {
	c, err := r.commit(ctx, id)
	if err != nil {
		return entry{}, err
	}
	return r.descend(ctx, c.tree, path)
}

// Tree implements [content.Reader].
func (r *Reader) Tree(ctx context.Context, commit, path string) (string, error) {
	e, err := r.entryAt(ctx, commit, path)
	if err != nil {
		return "", err
	}
	if !e.isFolder() {
		return "", &content.PathError{Path: path, Want: "folder"}
	}
	return e.id(), nil
}

// List implements [content.Reader]. The id belongs to a tree, as Tree or another List returned it,
// so that its absence is damage.
func (r *Reader) List(ctx context.Context, id string) ([]content.Entry, error) {
	t, err := r.openTree(ctx, id)
	if err != nil {
		return nil, err
	}
	var entries []content.Entry
	for {
		e, err := t.next()
		if err != nil || !e.isThere() {
			return entries, err
		}
		entries = append(entries, content.Entry{Name: string(e.name), Kind: e.kind(), ID: e.id()})
	}
}

// Blob implements [content.Reader]. Blobs up to maxBlob are read into memory and verified before
// the first byte is returned. Larger ones are streamed by Params.Large.
func (r *Reader) Blob(ctx context.Context, id string) (content.File, error) {
	if ctx.Err() != nil {
		return content.File{}, context.Cause(ctx)
	}
	object, err := r.objects.Read(id, maxBlob)
	switch {
	case errors.Is(err, pack.ErrTooLarge):
		return r.params.Large(ctx, id)
	case errors.Is(err, pack.ErrNotFound) && r.params.Partial:
		return content.File{}, &content.AbsentError{IDs: []string{id}}
	case errors.Is(err, pack.ErrNotFound):
		return content.File{}, errors.Join(content.ErrDamaged, err)
	case err != nil:
		return content.File{}, damaged(err)
	case object.Kind != kindBlob:
		return content.File{}, fmt.Errorf("%w: %s is a %s, not a %s", content.ErrMalformed, id, object.Kind, kindBlob)
	}
	return content.File{Size: int64(len(object.Data)), ReadCloser: io.NopCloser(bytes.NewReader(object.Data))}, nil
}

// Absent implements [content.Reader].
func (r *Reader) Absent(ctx context.Context, ids []string) ([]string, error) {
	var absent []string
	if !r.params.Partial {
		return nil, nil
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		kind, err := r.Kind(id)
		if err != nil {
			return nil, err
		}
		if kind == "" {
			absent = append(absent, id)
		}
	}
	return absent, nil
}

// File implements [content.Reader].
func (r *Reader) File(ctx context.Context, commit, path string) (content.File, error) {
	e, err := r.entryAt(ctx, commit, path)
	if err != nil {
		return content.File{}, err
	}
	if !e.isThere() || e.isFolder() || e.isSubmodule() {
		return content.File{}, &content.PathError{Path: path, Want: "file"}
	}
	f, err := r.Blob(ctx, e.id())
	if err != nil {
		return content.File{}, fmt.Errorf("read %q: %w", path, err)
	}
	return f, nil
}
