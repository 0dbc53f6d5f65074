// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/services/gitcache/internal/chartdep"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot/leaves"
)

// findAtOnce is how many dependencies one build looks for at the same time.
const findAtOnce = 8

// Finder finds the artifacts that charts depend on. It may be used concurrently.
type Finder interface {
	// Find returns which artifact a dependency is now, and waits a bounded time where that has to be
	// asked. The artifact need not be mirrored yet. Errors are *chartdep.UnavailableError,
	// *chartdep.FetchError and the context's.
	Find(ctx context.Context, n chartdep.Need) (chartdep.Artifact, error)
	// Discard has the damaged mirror of a repository of charts fetched again.
	leaves.Discarder
}

// find returns the artifacts that needs are.
func find(ctx context.Context, finder Finder, needs []chartdep.Need) (Artifacts, error) {
	artifacts := make([]chartdep.Artifact, len(needs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(findAtOnce)
	for i, n := range needs {
		group.Go(func() (err error) {
			artifacts[i], err = finder.Find(ctx, n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := Artifacts{}
	for i, n := range needs {
		found[n.Key()] = artifacts[i]
	}
	return found, nil
}

// wanted is a dependency whose artifact is not mirrored here.
type wanted struct {
	need     chartdep.Need
	artifact chartdep.Artifact
}

// fetch fetches artifacts, one after the other.
func fetch(ctx context.Context, mirrors leaves.Mirrors, all []wanted) error {
	for _, w := range all {
		if err := mirrors.Fetch(ctx, map[string][]string{w.artifact.UID: {w.artifact.ID}}); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return w.need.Failed(err)
		}
	}
	return nil
}
