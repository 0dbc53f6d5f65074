// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// parallel is how many requests of one service are under way at once.
const parallel = 8

// each calls do for every item, a few at a time. What do returns is the item's failure, and does not keep the others from
// being tried; only a failure that all would share (see fatal) ends the work and is returned.
func each[T any](
	ctx context.Context, items []T, ref func(T) inventory.Ref, failed *failedObjects, do func(context.Context, T) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	results := make([]error, len(items))
	for i, item := range items {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			results[i] = do(ctx, item)
			if fatal(ctx, results[i]) {
				return results[i]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range results {
		if err != nil {
			failed.add(ref(items[i]), err)
		}
	}
	return nil
}

// fatal tells errors that are not about one object: the run was ended, or the cluster does not answer.
func fatal(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	problem, ok := errors.AsType[*reason.Problem](err)
	return !ok || problem.Reason == reason.ClusterUnreachable || problem.Reason == reason.Internal
}
