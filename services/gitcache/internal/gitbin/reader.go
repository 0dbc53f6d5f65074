// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitbin

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// reader reads one generation. Its processes end with the context that it was opened with.
type reader struct {
	program program
	dir     string
	partial bool // it may lack blobs
	objects *catalogue
}

// Close implements [content.Reader].
func (r *reader) Close() error {
	r.objects.Close()
	return nil
}

// Commit implements [content.Reader].
func (r *reader) Commit(_ context.Context, id string) (content.Commit, error) {
	c, err := r.commit(id)
	return c.Commit, err
}

// commit reads a commit that somebody asks for, so that its absence is not damage.
func (r *reader) commit(id string) (commit, error) {
	c, err := r.objects.commit(id)
	if errors.Is(err, errMissing) || errors.Is(err, errKind) {
		return commit{}, fmt.Errorf("%w: %s", content.ErrCommitNotFound, id)
	}
	return c, err
}

// Object implements [content.Reader].
func (r *reader) Object(_ context.Context, id string) (content.Object, error) {
	h, err := r.objects.ask("info", id)
	kind := content.ObjectKind(h.kind)
	switch {
	case err != nil:
		return content.Object{}, fmt.Errorf("read object %s: %w", id, err)
	case kind == "":
		return content.Object{}, fmt.Errorf("%w: %s", content.ErrCommitNotFound, id)
	case (kind != content.KindCommit && kind != content.KindTag) || h.size > content.MaxObject:
		return content.Object{}, nil
	}
	data, err := r.objects.whole(id, h.kind)
	if err != nil {
		return content.Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	return content.Object{Kind: kind, Data: data}, nil
}

// damaged marks the absence of what another object names.
func damaged(err error) error {
	if errors.Is(err, errMissing) || errors.Is(err, errKind) {
		return errors.Join(content.ErrDamaged, err)
	}
	return err
}

// shortest are the fewest digits that git looks up by its index.
const shortest = 4

var prefixForm = regexp.MustCompile(`^[0-9a-f]{0,64}$`)

// Expand implements [content.Reader]. Only commits count: a tree or a blob of the same beginning makes no id ambiguous.
func (r *reader) Expand(ctx context.Context, prefix string) (string, error) {
	if !prefixForm.MatchString(prefix) {
		return "", fmt.Errorf("%w: %q is no commit id", content.ErrCommitNotFound, prefix)
	}
	ids, err := r.candidates(ctx, prefix)
	if err != nil {
		return "", fmt.Errorf("search commits %s: %w", prefix, err)
	}
	var commits []string
	for _, id := range ids {
		kind, err := r.objects.Kind(id)
		if err != nil {
			return "", fmt.Errorf("search commits %s: %w", prefix, err)
		}
		if kind == "commit" {
			commits = append(commits, id)
		}
	}
	slices.Sort(commits)
	commits = slices.Compact(commits)
	switch len(commits) {
	case 0:
		return "", fmt.Errorf("%w: %s", content.ErrCommitNotFound, prefix)
	case 1:
		return commits[0], nil
	}
	return "", &content.AmbiguousError{Prefix: prefix, Candidates: commits[:min(len(commits), content.MaxCandidates)]}
}

// candidates are all objects whose ids begin so.
func (r *reader) candidates(ctx context.Context, prefix string) ([]string, error) {
	command := []string{"rev-parse", "--disambiguate=" + prefix}
	if len(prefix) < shortest {
		command = []string{"cat-file", "--batch-all-objects", "--batch-check=%(objectname)"}
	}
	var ids []string
	err := r.program.lines(ctx, r.dir, '\n', func(id string) (bool, error) {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
		return true, nil
	}, command...)
	return ids, err
}

// Tree implements [content.Reader].
func (r *reader) Tree(_ context.Context, commit, path string) (string, error) {
	e, err := r.entryAt(commit, path)
	if err != nil {
		return "", err
	}
	if !e.folder() {
		return "", &content.PathError{Path: path, Want: "folder"}
	}
	return e.id, nil
}

// entryAt returns what the commit holds at path. A missing path is a *content.PathError for a folder.
func (r *reader) entryAt(commit, path string) (entry, error) {
	c, err := r.commit(commit)
	if err != nil {
		return entry{}, err
	}
	return r.descend(c.tree, path)
}

func (r *reader) descend(root, path string) (entry, error) {
	at := entry{mode: modeFolder, id: root}
	if path == "" {
		return at, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if !at.folder() {
			return entry{}, &content.PathError{Path: path, Want: "folder"}
		}
		entries, err := r.objects.tree(at.id)
		if err != nil {
			return entry{}, err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
		if i < 0 {
			return entry{}, &content.PathError{Path: path, Want: "folder"}
		}
		at = entries[i]
	}
	return at, nil
}

// List implements [content.Reader].
func (r *reader) List(_ context.Context, tree string) ([]content.Entry, error) {
	entries, err := r.objects.tree(tree)
	if err != nil {
		return nil, err
	}
	list := make([]content.Entry, len(entries))
	for i, e := range entries {
		list[i] = content.Entry{Name: e.name, Kind: e.kind(), ID: e.id}
	}
	return list, nil
}

// Blob implements [content.Reader]. The content is valid until the reader is asked for anything else.
func (r *reader) Blob(_ context.Context, id string) (content.File, error) {
	b, err := r.objects.contents(id, "blob")
	if r.partial && errors.Is(err, errMissing) {
		return content.File{}, &content.AbsentError{IDs: []string{id}}
	}
	if err != nil {
		return content.File{}, fmt.Errorf("read blob: %w", damaged(err))
	}
	return content.File{Size: b.size, ReadCloser: b}, nil
}

// Absent implements [content.Reader].
func (r *reader) Absent(ctx context.Context, ids []string) ([]string, error) {
	if !r.partial {
		return nil, nil
	}
	absent, err := r.objects.absent(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look for blobs: %w", err)
	}
	return absent, nil
}

// File implements [content.Reader].
func (r *reader) File(ctx context.Context, commit, path string) (content.File, error) {
	e, err := r.entryAt(commit, path)
	if errors.Is(err, content.ErrPathNotFound) || (err == nil && (e.folder() || e.kind() == content.KindSubmodule)) {
		return content.File{}, &content.PathError{Path: path, Want: "file"}
	}
	if err != nil {
		return content.File{}, err
	}
	f, err := r.Blob(ctx, e.id)
	if err != nil {
		return content.File{}, fmt.Errorf("read %q: %w", path, err)
	}
	return f, nil
}
