// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

const (
	// maxPacked is how many dependencies are packed into one bundle, and maxPackedDepth how deep those
	// in the same repository may have dependencies there, too.
	maxPacked      = 256
	maxPackedDepth = 5
)

// packing packs what the charts of one bundle lack into their folders charts.
type packing struct {
	mirrors  *leaves.Reader
	finder   Finder
	maxFiles int // of the bundle
	bundle   Bundle
	texts    textReader
	done     Completion

	packed    int
	unknown   []chartdep.Need // whose artifact has to be found first
	unfetched []wanted
}

// run packs the missing dependencies of all charts that count. Where something has to be found or
// fetched first, it visits all of them before it returns a *leaves.AbsentError.
func (p *packing) run(ctx context.Context) error {
	charts, err := chartsIn(p.bundle.Leaves, p.bundle.Selection.Path(), p.bundle.Repositories == "")
	if err != nil {
		return err
	}
	if err := p.texts.check(ctx, charts); err != nil {
		return err
	}
	for _, one := range charts {
		if err := p.complete(ctx, one, 0); err != nil {
			return err
		}
	}
	if len(p.unknown)+len(p.unfetched) > 0 {
		return &leaves.AbsentError{Fetch: p.fetch}
	}
	return nil
}

// fetch finds and fetches the artifacts that were absent.
func (p *packing) fetch(ctx context.Context) error {
	found, err := find(ctx, p.finder, p.unknown)
	if err != nil {
		return err
	}
	maps.Copy(p.bundle.Found, found)
	return fetch(ctx, p.mirrors.Mirrors, p.unfetched)
}

// complete packs what a chart lacks.
func (p *packing) complete(ctx context.Context, one *chart, depth int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	read, ok, err := p.texts.read(ctx, one)
	if err != nil || !ok || len(read.Dependencies) == 0 {
		return err
	}
	packed, err := p.texts.packedNames(ctx, one)
	if err != nil {
		return err
	}
	missing, err := read.Missing(one.shown(), packed)
	if err != nil {
		return err
	}
	for _, w := range missing {
		if p.packed++; p.packed > maxPacked {
			return &chartdep.UnsupportedError{File: read.DeclaredIn(one.shown()), Said: fmt.Sprintf(
				"Its dependency %s is one too many: %d are packed into one bundle. Select fewer charts.", w.Name, maxPacked)}
		}
		need := chartdep.Need{
			Root: p.bundle.UID, Allowed: p.bundle.Repositories, File: read.DeclaredIn(one.shown()),
			Name: w.Name, Version: w.Version, Repository: w.Repository,
		}
		if w.Local != "" || strings.HasPrefix(w.Repository, "file:") {
			err = p.packFolder(ctx, one, w, need, depth)
		} else {
			err = p.packArtifact(ctx, one, w, need)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packArtifact packs a dependency from a repository of charts.
func (p *packing) packArtifact(ctx context.Context, one *chart, w chartdep.Wanted, need chartdep.Need) error {
	if p.finder == nil {
		return need.Unavailable(
			"Dependencies from other repositories are not fetched here. " +
				"Run helm dependency build, which packs them into charts.",
		)
	}
	if _, ok := p.done.needs[need.Key()]; !ok {
		p.done.needs[need.Key()] = need
	}
	found, ok := p.bundle.Found[need.Key()]
	if !ok {
		p.unknown = append(p.unknown, need)
		return nil
	}
	r, err := p.mirrors.Open(ctx, found.UID)
	var tree string
	if err == nil {
		tree, err = r.Tree(ctx, found.ID, "")
	}
	if _, lacks := errors.AsType[*content.AbsentError](err); lacks || errors.Is(err, mirror.ErrNoMirror) {
		p.unfetched = append(p.unfetched, wanted{need, found})
		return nil
	}
	from := &leaves.Place{UID: found.UID, Commit: found.ID, Above: one.place, Need: &need}
	if err != nil {
		return p.mirrors.Blame(from, err)
	}
	sub := &chart{place: from, above: one}
	if sub.files, err = p.list(ctx, sub, tree); err != nil {
		return p.mirrors.Blame(from, err)
	}
	read, ok, err := p.texts.read(ctx, sub)
	switch {
	case err != nil:
		return err
	case !ok:
		return need.Unavailable("Its Chart.yaml cannot be read. Choose another version, and tell its publisher.")
	}
	if err := read.Fits(w); err != nil {
		return need.Unavailable(
			"Its archive is not what it should be: %v. Choose another version, and tell its publisher.", err,
		)
	}
	packed, err := p.texts.packedNames(ctx, sub)
	if err != nil {
		return err
	}
	if names := read.Lacking(packed); len(names) > 0 {
		return need.Unavailable("Its archive does not hold its own dependencies: %s. "+
			"Publish it with them (helm dependency update, then helm package), or choose another version.",
			strings.Join(names, ", "))
	}
	return p.pack(one, sub, read)
}

// packFolder packs a dependency from the same commit.
func (p *packing) packFolder(ctx context.Context, one *chart, w chartdep.Wanted, need chartdep.Need, depth int) error {
	target, ok := chartdep.Within(one.origin, w.Local)
	switch {
	case !ok:
		return need.Unavailable("A file:// dependency has to be a relative path that stays in the repository.")
	case depth == maxPackedDepth:
		return need.Unavailable("It is nested deeper than %d dependencies in one repository.", maxPackedDepth)
	case one.isBuiltFrom(target):
		return need.Unavailable("It is a dependency of itself.")
	}
	r, err := p.mirrors.Open(ctx, one.place.UID)
	if err != nil {
		return err
	}
	tree, err := r.Tree(ctx, one.place.Commit, target)
	if errors.Is(err, content.ErrPathNotFound) {
		return need.Unavailable("The commit has no folder %q.", target)
	}
	if err != nil {
		return p.mirrors.Blame(one.place, err)
	}
	if one.place.Above == nil {
		p.done.trees[target] = tree
	}
	from := &leaves.Place{
		UID: one.place.UID, Commit: one.place.Commit, Link: one.place.Link, Above: one.place.Above, CopyOf: one.place,
	}
	sub := &chart{place: from, origin: target, above: one}
	if sub.files, err = p.list(ctx, sub, tree); err != nil {
		return p.mirrors.Blame(one.place, err)
	}
	if err := p.texts.check(ctx, []*chart{sub}); err != nil {
		return err
	}
	read, ok, err := p.texts.read(ctx, sub)
	switch {
	case err != nil:
		return err
	case !ok:
		return need.Unavailable("The folder %q has no Chart.yaml that can be read.", target)
	}
	if err := read.Fits(w); err != nil {
		return need.Unavailable(
			"The folder %q is not what it should be: %v. Correct one of the two, and run helm dependency update.",
			target, err,
		)
	}
	if err := p.pack(one, sub, read); err != nil {
		return err
	}
	return p.complete(ctx, sub, depth+1)
}

// pack puts a dependency into the folder charts of a chart.
func (p *packing) pack(into, sub *chart, read chartdep.Chart) error {
	sub.at = strings.TrimPrefix(into.at+"/"+chartsFolder+"/"+read.PackedName(), "/")
	sub.place.Prefix = sub.at + "/"
	if taken := below(into.files, sub.at); len(taken) > 0 {
		return &leaves.UnsupportedError{Path: sub.at, Reason: "is where a dependency of the chart is packed; remove it"}
	}
	for i := range sub.files {
		l := &sub.files[i]
		l.Path = sub.place.Prefix + l.Path
		l.Name = p.bundle.Selection.NameOf(l.Path)
	}
	limit := p.maxFiles
	if n := len(p.bundle.Leaves) + len(p.done.Added) + len(sub.files); n > limit {
		return &bundle.LimitError{Limit: bundle.LimitFiles, Max: int64(limit), Name: sub.at}
	}
	p.done.Added = append(p.done.Added, sub.files...)
	return nil
}

// list returns all files of a tree, with paths relative to it.
func (p *packing) list(ctx context.Context, sub *chart, tree string) ([]leaves.Leaf, error) {
	r, err := p.mirrors.Open(ctx, sub.place.UID)
	if err != nil {
		return nil, err
	}
	limit := p.maxFiles
	walk := &lister{
		reader: r, place: sub.place, visits: &p.bundle.Visits, maxFiles: limit,
		room: limit - len(p.bundle.Leaves) - len(p.done.Added),
	}
	err = walk.add(ctx, "", tree, leaves.MaxDepth)
	return walk.listed, err
}
