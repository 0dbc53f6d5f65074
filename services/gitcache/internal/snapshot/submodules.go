// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/submodule"
)

const (
	modulesFile = ".gitmodules"
	// maxNesting is how deep submodules of submodules are followed.
	maxNesting = 8
	// maxPlaces is the most places of submodules in one bundle. Each place costs a lookup in the
	// .gitmodules of its commit.
	maxPlaces = 1000
	// obtainAtOnce is how many submodules one build has fetched at the same time.
	obtainAtOnce = 8
)

// Submodules finds the mirrors of submodules. It may be used concurrently.
type Submodules interface {
	// Locate returns the UID under which a submodule is mirrored, or will be. Errors are
	// *submodule.UnavailableError, and mirror.ErrUnknownRepository.
	Locate(l submodule.Link) (uid string, err error)
	// Obtain makes the mirror hold the link's commit, and waits for that a bounded time. Errors are
	// *submodule.NotReadyError, *submodule.UnavailableError, the context's and those of the store
	// for definitions.
	Obtain(ctx context.Context, l submodule.Link) error
	// Discard has a damaged mirror fetched again.
	Discard(uid string)
}

// gitlink is where the tree of a submodule is to be put.
type gitlink struct {
	from   *place // the repository whose commit has the link
	at     selection.At
	path   string // in the repository that is bundled
	commit string
}

// within returns the path in the repository that has the link.
func (j gitlink) within() string { return strings.TrimPrefix(j.path, j.from.prefix) }

// walkSubmodules puts the trees of submodules into their places, one after the other, and those of
// their submodules. What is not mirrored yet is an *absentError with all links that could be seen.
func (b *Builder) walkSubmodules(ctx context.Context, mirrors *mirrorReader, p *planner) error {
	absent := &absentError{}
	nested := len(p.gitlinks) > 0
	for places := 0; len(p.gitlinks) > 0; places++ {
		j := p.gitlinks[0]
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if places == maxPlaces {
			return &UnsupportedError{Path: j.path, Reason: fmt.Sprintf("is a submodule too many: a bundle may have them in %d places", maxPlaces)}
		}
		p.gitlinks = p.gitlinks[1:]
		link, err := b.link(ctx, mirrors, j)
		if err != nil {
			return err
		}
		err = b.walkSubmodule(ctx, mirrors, p, j, link)
		switch {
		case errors.Is(err, mirror.ErrNoMirror), errors.Is(err, content.ErrCommitNotFound):
			absent.links = append(absent.links, link)
		case err != nil:
			return err
		}
	}
	if len(absent.links) > 0 {
		return absent
	}
	if nested {
		slices.SortFunc(p.leaves, func(x, y leaf) int { return strings.Compare(x.name, y.name) })
	}
	return nil
}

// link returns what the commit that has a gitlink says of it, in .gitmodules.
func (b *Builder) link(ctx context.Context, mirrors *mirrorReader, j gitlink) (submodule.Link, error) {
	l := submodule.Link{Root: j.from.root().uid, Parent: j.from.uid, Path: j.path, Commit: j.commit}
	r, err := mirrors.open(ctx, j.from.uid)
	if err != nil {
		return l, err
	}
	settings, err := readConfig(ctx, r, j.from.commit, modulesFile)
	if errors.Is(err, gitconfig.ErrSyntax) {
		return l, &submodule.UnavailableError{Path: l.Path, Commit: l.Commit, Said: "The commit's .gitmodules cannot be read: " + err.Error() + "."}
	}
	l.URL = urlOf(settings, j.within())
	return l, err
}

// urlOf returns the URL of the submodule at a path. Of several with the path the last counts, as
// for git.
func urlOf(settings []gitconfig.Setting, path string) string {
	name, found := "", false
	for _, s := range settings {
		if s.Section == "submodule" && s.Key == "path" && strings.TrimSuffix(s.Value, "/") == path {
			name, found = s.Subsection, true
		}
	}
	if !found {
		return ""
	}
	return gitconfig.Last(settings, "submodule", name, "url")
}

// walkSubmodule lists the leaves of one submodule. content.ErrCommitNotFound and
// mirror.ErrNoMirror: it has to be obtained.
func (b *Builder) walkSubmodule(ctx context.Context, mirrors *mirrorReader, p *planner, j gitlink, link submodule.Link) error {
	if b.params.Submodules == nil {
		return &UnsupportedError{Path: j.path, Reason: "is a submodule, and none are fetched here"}
	}
	uid, err := b.params.Submodules.Locate(link)
	if err != nil {
		return err
	}
	here := &place{uid: uid, commit: j.commit, prefix: j.path + "/", link: &link, above: j.from}
	if err := here.checkNesting(); err != nil {
		return err
	}
	r, err := mirrors.open(ctx, uid)
	if err != nil {
		return err
	}
	tree, err := r.Tree(ctx, j.commit, "")
	if err != nil {
		return err
	}
	p.reader, p.place = r, here
	return b.blame(here, p.walkAll(ctx, j.at, tree))
}

// checkNesting returns an error where a submodule contains itself, or is nested too deep.
func (p *place) checkNesting() error {
	depth := 0
	for above := p.above; above != nil; above = above.above {
		said := ""
		switch depth++; {
		case depth > maxNesting:
			said = fmt.Sprintf("It is nested deeper than %d submodules.", maxNesting)
		case above.uid == p.uid:
			said = "It is a submodule of itself."
		default:
			continue
		}
		return &submodule.UnavailableError{Path: p.link.Path, URL: p.link.URL, Commit: p.commit, Said: said}
	}
	return nil
}

// blame has the mirror of a submodule, or of a chart's dependency, fetched again where err is its
// damage, and reports that it is not ready. Otherwise the caller would discard the mirror of the
// repository that is bundled.
func (b *Builder) blame(p *place, err error) error {
	if !errors.Is(err, content.ErrDamaged) {
		return err
	}
	if p.need != nil {
		b.params.Charts.Discard(p.uid)
		return p.need.Failed(mirror.ErrNoMirror)
	}
	if p.link == nil {
		return err
	}
	b.params.Submodules.Discard(p.uid)
	return &submodule.NotReadyError{Path: p.link.Path, URL: p.link.URL, Problem: nil}
}

// obtain has submodules mirrored, several at a time, and waits for them.
func (b *Builder) obtain(ctx context.Context, links []submodule.Link) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(obtainAtOnce)
	for _, l := range links {
		group.Go(func() error { return b.params.Submodules.Obtain(ctx, l) })
	}
	return group.Wait()
}
