// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

// file is a leaf of a tree in memory.
type file struct {
	kind content.Kind
	text string
}

// commit is all files of a commit, by path.
type commit map[string]file

// plain returns a commit of regular files.
func plain(files map[string]string) commit {
	c := commit{}
	for name, text := range files {
		c[name] = file{text: text}
	}
	return c
}

// repo is a repository in memory that counts its reads. Its ids depend on content alone, as Git's
// do.
type repo struct {
	commits map[string]commit
	takes   time.Duration // every listing of a tree
	damage  bool          // no file can be read

	opens, lists, blobs atomic.Int64
	unclosed            atomic.Int64 // readers that are not closed

	mu      sync.Mutex
	trees   map[string][]content.Entry
	content map[string]string
}

func (r *repo) Open(context.Context, string) (content.Reader, error) {
	r.opens.Add(1)
	r.unclosed.Add(1)
	return &reader{repo: r}, nil
}

// reads returns how many trees and blobs have been read since it was called before.
func (r *repo) reads() (lists, blobs int64) { return r.lists.Swap(0), r.blobs.Swap(0) }

// tree returns the id of a commit's folder, which it makes readable; "" if there is none.
func (r *repo) tree(c commit, folder string) string {
	var entries []content.Entry
	for name := range c {
		rest, ok := strings.CutPrefix(name, folder)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		if slices.ContainsFunc(entries, func(e content.Entry) bool { return e.Name == first }) {
			continue
		}
		e := content.Entry{Name: first, Kind: c[name].kind, ID: "blob " + c[name].text}
		if e.Kind == content.KindSubmodule {
			e.ID = c[name].text // the commit
		}
		if deeper {
			e.Kind, e.ID = content.KindFolder, r.tree(c, folder+first+"/")
		}
		entries = append(entries, e)
		r.content[e.ID] = c[name].text
	}
	if entries == nil && folder != "" {
		return ""
	}
	slices.SortFunc(entries, func(a, b content.Entry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	id := digest.FromBytes(fmt.Append(nil, entries)).Hex()
	r.trees[id] = entries
	return id
}

func sortKey(e content.Entry) string {
	if e.Kind == content.KindFolder {
		return e.Name + "/"
	}
	return e.Name
}

// reader answers what snapshots ask; the rest of the interface is not used here.
type reader struct {
	content.Reader
	repo *repo
}

func (r *reader) Close() error {
	r.repo.unclosed.Add(-1)
	return nil
}

func (r *reader) Tree(_ context.Context, id, folder string) (string, error) {
	r.repo.mu.Lock()
	defer r.repo.mu.Unlock()
	c, ok := r.repo.commits[id]
	if !ok {
		return "", content.ErrCommitNotFound
	}
	if r.repo.trees == nil {
		r.repo.trees, r.repo.content = map[string][]content.Entry{}, map[string]string{}
	}
	below := ""
	if folder != "" {
		below = path.Clean(folder) + "/"
	}
	if tree := r.repo.tree(c, below); tree != "" {
		return tree, nil
	}
	return "", &content.PathError{Path: folder, Want: "folder"}
}

func (r *reader) File(_ context.Context, id, name string) (content.File, error) {
	r.repo.mu.Lock()
	defer r.repo.mu.Unlock()
	f, ok := r.repo.commits[id][name]
	if !ok {
		return content.File{}, &content.PathError{Path: name, Want: "file"}
	}
	return content.File{Size: int64(len(f.text)), ReadCloser: io.NopCloser(strings.NewReader(f.text))}, nil
}

func (r *reader) List(ctx context.Context, tree string) ([]content.Entry, error) {
	r.repo.lists.Add(1)
	if err := backoff.Wait(ctx, r.repo.takes); err != nil {
		return nil, err
	}
	r.repo.mu.Lock()
	defer r.repo.mu.Unlock()
	return r.repo.trees[tree], nil
}

func (r *reader) Absent(context.Context, []string) ([]string, error) { return nil, nil }

func (r *reader) Blob(_ context.Context, id string) (content.File, error) {
	if r.repo.damage {
		return content.File{}, content.ErrDamaged
	}
	r.repo.blobs.Add(1)
	r.repo.mu.Lock()
	defer r.repo.mu.Unlock()
	text := r.repo.content[id]
	return content.File{Size: int64(len(text)), ReadCloser: io.NopCloser(strings.NewReader(text))}, nil
}

// bomb is a commit of 30 levels of trees that hold the next one twice: 2³⁰ files, all ignored.
type bomb struct{ content.Reader }

func (b bomb) Open(context.Context, string) (content.Reader, error) { return b, nil }

func (bomb) Close() error { return nil }

func (bomb) Tree(context.Context, string, string) (string, error) { return "30", nil }

func (bomb) List(_ context.Context, tree string) ([]content.Entry, error) {
	level, err := strconv.Atoi(tree)
	if level == 0 {
		return []content.Entry{{Name: "a.txt", ID: "a"}}, err
	}
	next := strconv.Itoa(level - 1)
	return []content.Entry{
		{Name: selection.IgnoreFile, ID: "rules"},
		{Name: "l", Kind: content.KindFolder, ID: next},
		{Name: "r", Kind: content.KindFolder, ID: next},
	}, err
}

func (bomb) Blob(context.Context, string) (content.File, error) {
	return content.File{ReadCloser: io.NopCloser(strings.NewReader("*.txt\n"))}, nil
}
