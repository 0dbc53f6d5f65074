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

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
)

// maxDepth bounds how deep trees may be nested; content that needs more is hostile.
const maxDepth = 256

// leaf is one entry of a bundle that is going to be.
type leaf struct {
	path string // in the repository
	name string // in the bundle
	kind content.Kind
	id   string
	*place
}

// planner finds out which leaves of a commit are selected, without reading any of them. The walk
// goes from the top down and is bounded three times: by the entries that are looked at, by the
// leaves that are selected, and by depth.
type planner struct {
	builder   *Builder
	reader    content.Reader // of the repository that is walked
	place     *place         // that repository
	selection *selection.Selection
	toVisit   int // how many more entries
	leaves    []leaf
	gitlinks  []gitlink // submodules that are selected
	absent    []string  // ignore files that a partial mirror lacks
}

// plan lists the leaves in the order of their names, and returns what of them was packed for charts.
// Submodules are walked after the repository itself, because only one mirror may be open; charts are
// completed after that.
func (b *Builder) plan(ctx context.Context, mirrors *mirrorReader, f Folder, state *chartState) ([]leaf, *completer, error) {
	r, err := mirrors.open(ctx, f.UID)
	if err != nil {
		return nil, nil, err
	}
	tree, err := r.Tree(ctx, f.Commit, "")
	if err != nil {
		return nil, nil, err
	}
	p := &planner{
		builder: b, reader: r, place: &place{uid: f.UID, commit: f.Commit}, selection: f.Selection, toVisit: b.params.Visits,
	}
	if err := p.walkAll(ctx, f.Selection.Start(), tree); err != nil {
		return nil, nil, err
	}
	if err := b.walkSubmodules(ctx, mirrors, p); err != nil {
		return nil, nil, err
	}
	if p.reader, err = mirrors.open(ctx, f.UID); err != nil {
		return nil, nil, err
	}
	if err := p.checkEmpty(ctx, f.Commit); err != nil {
		return nil, nil, err
	}
	completed, err := b.completeCharts(ctx, mirrors, p, f, state)
	return p.leaves, completed, err
}

// walkAll walks one repository. Where ignore files are absent it goes on as if they were empty, so
// that all are fetched at once, and ends with a *content.AbsentError.
func (p *planner) walkAll(ctx context.Context, at selection.At, tree string) error {
	err := p.walk(ctx, at, tree, maxDepth)
	if len(p.absent) > 0 && ctx.Err() == nil {
		return &content.AbsentError{IDs: p.absent}
	}
	return err
}

func (p *planner) walk(ctx context.Context, at selection.At, tree string, depth int) error {
	if depth == 0 {
		return fmt.Errorf("walk tree: more than %d levels at %q", maxDepth, at.Below(""))
	}
	entries, err := p.reader.List(ctx, tree)
	if err != nil {
		return err
	}
	if p.toVisit -= len(entries); p.toVisit < 0 {
		return &UnsupportedError{Path: at.Below(""), Reason: "comes after too much that has to be looked at; name folders further down, or exclude some"}
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

// nameOf returns the name in the bundle of a path in the repository.
func (p *planner) nameOf(path string) string {
	if base := p.selection.Base(); base != "" {
		return strings.TrimPrefix(path, base+"/")
	}
	return path
}

func (p *planner) add(path string, e content.Entry) error {
	name := p.nameOf(path)
	if limit := p.builder.params.Limits.Files; len(p.leaves) == limit {
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(limit), Name: name}
	}
	p.leaves = append(p.leaves, leaf{path: path, name: name, kind: e.Kind, id: e.ID, place: p.place})
	return nil
}

// withRules reads the folder's ignore file, if it has one and it matters.
func (p *planner) withRules(ctx context.Context, at selection.At, entries []content.Entry) (selection.At, error) {
	i := slices.IndexFunc(entries, isIgnoreFile)
	if i < 0 || !at.AsksForRules() {
		return at, nil
	}
	rules, err := p.builder.rulesOf(ctx, p.place.uid, p.reader, at.Below(selection.IgnoreFile), entries[i])
	if lacks, ok := errors.AsType[*content.AbsentError](err); ok {
		p.absent = append(p.absent, lacks.IDs...)
		return at, nil
	}
	if err != nil {
		return at, err
	}
	return at.WithRules(rules), nil
}

func isIgnoreFile(e content.Entry) bool {
	return e.Name == selection.IgnoreFile && e.Kind != content.KindFolder && e.Kind != content.KindSubmodule
}

// checkEmpty refuses a selection that leaves nothing of a folder that is named and not empty: more
// likely than that nobody wants its content is that a pattern matches too much.
func (p *planner) checkEmpty(ctx context.Context, commit string) error {
	empty := append(p.selection.Folders(), p.selection.Path())
	for _, l := range p.leaves {
		empty = slices.DeleteFunc(empty, func(folder string) bool { return content.Inside(l.path, folder) })
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
func keyOf(leaves []leaf) string {
	h := selection.NewHash("leaves")
	for _, l := range leaves {
		h.Add(l.name, strconv.Itoa(int(l.kind)), l.id)
		if l.above != nil { // objects of another repository, to which equal ids mean nothing
			h.Add("of", l.uid)
		}
	}
	return h.Sum()
}
