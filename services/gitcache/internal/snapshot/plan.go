// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// planner finds out which leaves of a commit are selected, without reading any of them. The walk
// goes from the top down and is bounded three times: by the entries that are visited, by the leaves
// that are selected, and by depth.
type planner struct {
	rules     rules
	selection *selection.Selection
	maxFiles  int            // of the bundle
	reader    content.Reader // of the repository that is walked
	place     *leaves.Place  // that repository
	toVisit   int            // how many more entries
	selected  []leaves.Leaf
	gitlinks  []gitlink // submodules that are selected
	absent    []string  // ignore files that a partial mirror lacks
}

// gitlink is where the tree of a submodule is to be put.
type gitlink struct {
	from   *leaves.Place // the repository whose commit has the link
	at     selection.At
	path   string // in the repository that is bundled
	commit string
}

// within returns the path in the repository that has the link.
func (j gitlink) within() string { return strings.TrimPrefix(j.path, j.from.Prefix) }

// walkAll walks one repository. Where ignore files are absent it continues as if they were empty,
// so that all are fetched at once, and ends with a *content.AbsentError.
func (p *planner) walkAll(ctx context.Context, at selection.At, tree string) error {
	err := p.walk(ctx, at, tree, leaves.MaxDepth)
	if len(p.absent) > 0 && ctx.Err() == nil {
		return &content.AbsentError{IDs: p.absent}
	}
	return err
}

func (p *planner) walk(ctx context.Context, at selection.At, tree string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", leaves.MaxDepth, at.Below(""))
	}
	entries, err := p.reader.List(ctx, tree)
	if err != nil {
		return err
	}
	if p.toVisit -= len(entries); p.toVisit < 0 {
		return &leaves.UnsupportedError{
			Path:   at.Below(""),
			Reason: "comes after too much that has to be looked at; name folders further down, or exclude some",
		}
	}
	if at, err = p.withRules(ctx, at, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.visit(ctx, at, e, depth); err != nil {
			return err
		}
	}
	return nil
}

// visit walks a folder, notes a submodule for later, or adds a leaf, if it is selected.
func (p *planner) visit(ctx context.Context, at selection.At, e content.Entry, depth int) error {
	if e.Kind == content.KindFolder {
		if below, ok := at.Enter(e.Name); ok {
			return p.walk(ctx, below, e.ID, depth-1)
		}
		return nil
	}
	if e.Kind == content.KindSubmodule {
		if below, ok := at.Enter(e.Name); ok {
			p.gitlinks = append(p.gitlinks, gitlink{from: p.place, at: below, path: at.Below(e.Name), commit: e.ID})
		}
		return nil
	}
	if !at.Takes(e.Name, false) {
		return nil
	}
	return p.add(at.Below(e.Name), e)
}

func (p *planner) add(path string, e content.Entry) error {
	name := p.selection.NameOf(path)
	if len(p.selected) == p.maxFiles {
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(p.maxFiles), Name: name}
	}
	p.selected = append(p.selected, leaves.Leaf{Path: path, Name: name, Kind: e.Kind, ID: e.ID, Place: p.place})
	return nil
}

// withRules reads the folder's ignore file, if it has one and it matters.
func (p *planner) withRules(ctx context.Context, at selection.At, entries []content.Entry) (selection.At, error) {
	i := slices.IndexFunc(entries, isIgnoreFile)
	if i < 0 || !at.AsksForRules() {
		return at, nil
	}
	rules, err := p.rules.of(ctx, p.place.UID, p.reader, at.Below(selection.IgnoreFile), entries[i])
	if lacks, ok := errors.AsType[*content.AbsentError](err); ok {
		p.absent = append(p.absent, lacks.IDs...)
		return at, nil
	}
	if err != nil {
		return at, err
	}
	return at.WithRules(rules), nil
}

// checkEmpty refuses a selection that leaves nothing of a folder that is named and not empty: a
// pattern that matches too much is more likely than an unwanted folder.
func (p *planner) checkEmpty(ctx context.Context, commit string) error {
	empty := append(p.selection.Folders(), p.selection.Path())
	for _, l := range p.selected {
		empty = slices.DeleteFunc(empty, func(folder string) bool { return content.Inside(l.Path, folder) })
	}
	for _, folder := range empty {
		tree, err := p.reader.Tree(ctx, commit, folder)
		if err != nil {
			return err
		}
		entries, err := p.reader.List(ctx, tree)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return &EmptyError{Folder: folder}
		}
	}
	return nil
}

// keyOf names what the leaves make: equal leaves have an equal bundle, whatever selection of
// whatever commit they are.
func keyOf(all []leaves.Leaf) string {
	h := selection.NewHash("leaves")
	for _, l := range all {
		h.Add(l.Name, strconv.Itoa(int(l.Kind)), l.ID)
		if l.Above != nil { // objects of another repository, to which equal ids mean nothing
			h.Add("of", l.UID)
		}
	}
	return h.Sum()
}
