// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package charts completes Helm charts: it packs the dependencies that a chart in Git names and lacks
// into the folder charts of its copy in a bundle.
//
// A dependency is an artifact of another repository, or another folder of the same repository. The
// packed files are the same on every replica, as if it had been committed: which version is packed
// is pinned by the chart's lock file, and package chartdep reads it. A dependency that cannot be
// packed is an error that names the chart's file and the dependency.
//
// Everything that it reads was written by committers. Its limits bound what one bundle costs, and a
// dependency stays in its repository, and in its folder of the bundle.
//
// A [Completer] keeps nothing between calls, and may be used concurrently. If a mirror lacks
// something, it returns a [leaves.AbsentError], with everything that it could see to be absent. Its
// caller remembers the [Dependencies] of a selection, and asks [Completer.KeyNow] which content
// they make now.
package charts

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// Completer completes the charts of bundles.
type Completer struct {
	Mirrors leaves.Mirrors
	// Finder finds artifacts. Nil: only dependencies in the same repository are packed.
	Finder   Finder
	MaxFiles int // of a bundle
}

// Complete packs the dependencies that selected charts lack. The Completion is also good with an
// error. Errors are a [*leaves.AbsentError], *leaves.UnsupportedError, *bundle.LimitError,
// *chartdep.UnsupportedError, *chartdep.UnavailableError, *chartdep.FetchError and what reading the
// mirrors fails with.
//
// The chart at the source's path counts. Those in other folders count if the repository's definition
// lists repositories for dependencies: a source may select any number of charts that nothing renders.
func (c *Completer) Complete(ctx context.Context, mirrors *leaves.Reader, b Bundle) (Completion, error) {
	p := &packing{
		mirrors: mirrors, finder: c.Finder, maxFiles: c.MaxFiles, bundle: b, texts: textReader{mirrors: mirrors},
		done: Completion{trees: map[string]string{}, needs: map[chartdep.Need]chartdep.Need{}, found: b.Found},
	}
	err := p.run(ctx)
	return p.done, err
}

// KeyNow returns the [Completion.Key] of a selection for its current dependencies: the folders in
// that commit, and the artifacts that the Finder finds. It returns the errors of the Finder, and of
// reading the mirror.
func (c *Completer) KeyNow(ctx context.Context, uid, commit, outline string, d Dependencies) (string, error) {
	found, err := find(ctx, c.Finder, d.needs)
	if err != nil {
		return "", err
	}
	trees := map[string]string{}
	if len(d.folders) > 0 {
		r, err := c.Mirrors.Open(ctx, uid)
		if err != nil {
			return "", err
		}
		defer func() { _ = r.Close() }()
		for _, folder := range d.folders {
			tree, err := r.Tree(ctx, commit, folder)
			if err != nil && !errors.Is(err, content.ErrPathNotFound) { // which the build reports, with the chart's name
				return "", err
			}
			trees[folder] = tree
		}
	}
	return d.key(outline, trees, found), nil
}
