// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitconfig"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
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
	// *submodule.NotReadyError, *submodule.UnavailableError, the context's and errors of the store for
	// definitions.
	Obtain(ctx context.Context, l submodule.Link) error
	leaves.Discarder
}

// submoduleWalk puts the trees of submodules into a bundle.
type submoduleWalk struct {
	submodules Submodules
	mirrors    *leaves.Reader
	planner    *planner
}

// run puts the trees of submodules into their places, one after the other, and of their submodules.
// It reports missing mirrors as a *leaves.AbsentError about all that could be seen.
func (w submoduleWalk) run(ctx context.Context) error {
	p := w.planner
	var absent []submodule.Link
	nested := len(p.gitlinks) > 0
	for places := 0; len(p.gitlinks) > 0; places++ {
		j := p.gitlinks[0]
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if places == maxPlaces {
			return &leaves.UnsupportedError{
				Path:   j.path,
				Reason: fmt.Sprintf("is a submodule too many: a bundle may have them in %d places", maxPlaces),
			}
		}
		p.gitlinks = p.gitlinks[1:]
		link, err := w.link(ctx, j)
		if err != nil {
			return err
		}
		err = w.walk(ctx, j, link)
		switch {
		case errors.Is(err, mirror.ErrNoMirror), errors.Is(err, content.ErrCommitNotFound):
			absent = append(absent, link)
		case err != nil:
			return err
		}
	}
	if len(absent) > 0 {
		return &leaves.AbsentError{Fetch: func(ctx context.Context) error { return obtain(ctx, w.submodules, absent) }}
	}
	if nested {
		leaves.Sort(p.selected)
	}
	return nil
}

// link returns the entry for a gitlink in .gitmodules of its commit.
func (w submoduleWalk) link(ctx context.Context, j gitlink) (submodule.Link, error) {
	l := submodule.Link{Root: j.from.Root().UID, Parent: j.from.UID, Path: j.path, Commit: j.commit}
	r, err := w.mirrors.Open(ctx, j.from.UID)
	if err != nil {
		return l, err
	}
	settings, err := readConfig(ctx, r, j.from.Commit, modulesFile)
	if errors.Is(err, gitconfig.ErrSyntax) {
		return l, &submodule.UnavailableError{
			Path: l.Path, Commit: l.Commit, Said: "The commit's .gitmodules cannot be read: " + err.Error() + ".",
		}
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

// walk lists the leaves of one submodule. content.ErrCommitNotFound and
// mirror.ErrNoMirror: it has to be obtained.
func (w submoduleWalk) walk(ctx context.Context, j gitlink, link submodule.Link) error {
	if w.submodules == nil {
		return &leaves.UnsupportedError{Path: j.path, Reason: "is a submodule, and none are fetched here"}
	}
	uid, err := w.submodules.Locate(link)
	if err != nil {
		return err
	}
	here := &leaves.Place{UID: uid, Commit: j.commit, Prefix: j.path + "/", Link: &link, Above: j.from}
	if err := checkNesting(here); err != nil {
		return err
	}
	r, err := w.mirrors.Open(ctx, uid)
	if err != nil {
		return err
	}
	tree, err := r.Tree(ctx, j.commit, "")
	if err != nil {
		return err
	}
	w.planner.reader, w.planner.place = r, here
	return w.mirrors.Blame(here, w.planner.walkAll(ctx, j.at, tree))
}

// checkNesting returns an error where a submodule contains itself, or is nested too deep.
func checkNesting(p *leaves.Place) error {
	depth := 0
	for above := p.Above; above != nil; above = above.Above {
		said := ""
		switch depth++; {
		case depth > maxNesting:
			said = fmt.Sprintf("It is nested deeper than %d submodules.", maxNesting)
		case above.UID == p.UID:
			said = "It is a submodule of itself."
		default:
			continue
		}
		return &submodule.UnavailableError{Path: p.Link.Path, URL: p.Link.URL, Commit: p.Commit, Said: said}
	}
	return nil
}

// obtain has submodules mirrored, several at a time, and waits for them.
func obtain(ctx context.Context, submodules Submodules, links []submodule.Link) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(obtainAtOnce)
	for _, l := range links {
		group.Go(func() error { return submodules.Obtain(ctx, l) })
	}
	return group.Wait()
}
