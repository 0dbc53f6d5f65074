// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// outline hashes the inputs of a selection of a commit, reading no more than the trees above the
// named files: the ids of the named folders and files, and of the ignore files above them. Ignore
// files further down are part of their folder's id.
type outline struct {
	reader    content.Reader
	selection *selection.Selection
	hash      *selection.Hash
	found     map[string]bool // of the named one
}

// outlineKey names a selection of a commit, with the rules for its charts.
type outlineKey struct{ uid, commit, selection, charts string }

// outlines reads outlines, and remembers them. It may be used concurrently.
type outlines struct {
	mirrors leaves.Mirrors
	known   *lru.Cache[outlineKey, string]
}

func newOutlines(mirrors leaves.Mirrors) outlines {
	return outlines{mirrors, newCache[outlineKey, string](rememberOutlines)}
}

// of returns the outline, with the repository, from memory where the same was asked of the commit
// before.
func (x outlines) of(ctx context.Context, f Folder) (treeKey, error) {
	key := outlineKey{uid: f.UID, commit: f.Commit, selection: f.Selection.Key(), charts: f.chartRules()}
	if sum, ok := x.known.Get(key); ok {
		return treeKey{f.UID, sum}, nil
	}
	for round := 0; ; round++ {
		sum, err := x.read(ctx, f)
		absent, ok := errors.AsType[*content.AbsentError](err)
		switch {
		case err == nil:
			x.known.Add(key, sum)
			return treeKey{f.UID, sum}, nil
		case !ok || round == maxOutlines:
			return treeKey{}, err
		}
		if err := x.mirrors.Fetch(ctx, map[string][]string{f.UID: absent.IDs}); err != nil {
			return treeKey{}, err
		}
	}
}

const (
	// maxOutlines bounds how often the artifact that a commit names is fetched for its outline: once
	// suffices, unless the mirror is given up in between.
	maxOutlines      = 3
	rememberOutlines = 100_000
)

// read returns the outline. The error is a *content.AbsentError where the commit is an
// artifact that is not here.
func (x outlines) read(ctx context.Context, f Folder) (string, error) {
	r, err := x.mirrors.Open(ctx, f.UID)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	o := &outline{reader: r, selection: f.Selection, hash: selection.NewHash("outline 2"), found: map[string]bool{}}
	o.hash.Add(f.Selection.Key(), f.chartRules())
	if err := o.read(ctx, f.Commit); err != nil {
		return "", err
	}
	return o.hash.Sum(), nil
}

func (o *outline) read(ctx context.Context, commit string) error {
	if _, err := o.reader.Tree(ctx, commit, o.selection.Path()); err != nil {
		return err
	}
	root, err := o.reader.Tree(ctx, commit, "")
	if err != nil {
		return err
	}
	if err := o.addFolder(ctx, "", root, leaves.MaxDepth); err != nil {
		return err
	}
	return o.checkNamed()
}

// addFolder adds a folder: by the id of its tree where it is named as a whole, else by the named
// entries below it.
func (o *outline) addFolder(ctx context.Context, path, tree string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", leaves.MaxDepth, path)
	}
	if o.selection.Named(path) {
		o.add("folder", path, tree)
		if !o.selection.LeadsOn(path) {
			return nil
		}
	}
	entries, err := o.reader.List(ctx, tree)
	if err != nil {
		return err
	}
	prefix := ""
	if path != "" {
		prefix = path + "/"
	}
	for _, e := range entries {
		if err := o.addEntry(ctx, prefix+e.Name, e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (o *outline) addEntry(ctx context.Context, path string, e content.Entry, depth int) error {
	switch {
	case e.Kind == content.KindFolder:
		if o.selection.Named(path) || o.selection.LeadsOn(path) {
			return o.addFolder(ctx, path, e.ID, depth-1)
		}
	case o.selection.NamesFile(path) && e.Kind != content.KindSubmodule, isIgnoreFile(e):
		o.add(strconv.Itoa(int(e.Kind)), path, e.ID)
	}
	return nil
}

func (o *outline) add(what, path, id string) {
	o.found[path] = true
	o.hash.Add(what, path, id)
}

// checkNamed returns an error unless everything that the selection names was found.
func (o *outline) checkNamed() error {
	for _, folder := range o.selection.Folders() {
		if !o.found[folder] {
			return &content.PathError{Path: folder, Want: "folder"}
		}
	}
	for _, file := range o.selection.Files() {
		if !o.found[file] {
			return &content.PathError{Path: file, Want: "file"}
		}
	}
	return nil
}
