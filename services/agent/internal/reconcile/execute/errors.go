// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Failures is the error of a run in which some objects failed. Its reason is the reason of the
// first one.
type Failures struct {
	// Objects are the failed objects, each with its problem. The list is never empty.
	Objects []report.ObjectStatus

	verb string // the attempted operation
}

// Error implements error.
func (f *Failures) Error() string {
	first := f.Objects[0]
	if len(f.Objects) == 1 {
		return fmt.Sprintf("%s %s: %s", f.verb, first.Ref.Key, first.Problem.Message)
	}
	return fmt.Sprintf("%s failed for %d objects; the first is %s: %s", f.verb, len(f.Objects), first.Ref.Key, first.Problem.Message)
}

// Unwrap returns the first problem.
func (f *Failures) Unwrap() error { return f.Objects[0].Problem }

func (f *Failures) add(ref inventory.Ref, err error) {
	f.Objects = append(f.Objects, report.ObjectStatus{Ref: ref, Problem: reason.ProblemOf(err)})
}

// orNil returns f if any object failed.
func (f *Failures) orNil() error {
	if len(f.Objects) == 0 {
		return nil
	}
	return f
}

// HeldPrune is the error of a run whose deletions the guard stopped.
type HeldPrune struct {
	// Digest identifies the objects. A person's confirmation must name it.
	Digest string

	objects []inventory.Object
	base    int
	// restoredAt is when the hub was restored from a backup, if the prune is held because of that.
	restoredAt time.Time
}

// Error implements error.
func (h *HeldPrune) Error() string {
	if !h.restoredAt.IsZero() {
		return fmt.Sprintf("the hub was restored from a backup at %s, and pruning would take %d of %d objects away (%s); "+
			"restore what the service lacks, confirm with leat prune confirm, or release the cluster with leat cluster release",
			h.restoredAt.UTC().Format(time.RFC3339), len(h.objects), h.base, inventory.Describe(h.objects))
	}
	return fmt.Sprintf("pruning would take %d of %d objects away (%s); restore the manifests, or confirm with leat prune confirm, "+
		"which sets sync.pruneConfirmation: %s in the service", len(h.objects), h.base, inventory.Describe(h.objects), h.Digest)
}

// Reason implements reason.ReasonedError.
func (h *HeldPrune) Reason() reason.Reason { return reason.PruneGuarded }

// Guarded returns the report of the stopped deletions.
func (h *HeldPrune) Guarded() report.Guarded {
	g := report.Guarded{Digest: h.Digest}
	for _, o := range h.objects[:min(len(h.objects), report.MaxObjects)] {
		g.Objects = append(g.Objects, o.Ref)
	}
	return g
}

// maxParallel is the number of concurrent requests of one run.
const maxParallel = 8

// each calls do for every item, a few concurrently. An error of do is recorded as the item's
// failure, and the other items are still tried. Only an error that would affect all items (see
// isFatal) ends the work and is returned.
func each[T any](
	ctx context.Context, items []T, ref func(T) inventory.Ref, failures *Failures, do func(context.Context, T) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	results := make([]error, len(items))
	for i, item := range items {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			results[i] = do(ctx, item)
			if isFatal(ctx, results[i]) {
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
			failures.add(ref(items[i]), err)
		}
	}
	return nil
}

// isFatal reports whether an error concerns more than one object: the run was ended, or the cluster
// does not answer.
func isFatal(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	problem, ok := errors.AsType[*reason.Problem](err)
	return !ok || problem.Reason == reason.ClusterUnreachable || problem.Reason == reason.Internal
}

func refOf(o inventory.Object) inventory.Ref { return o.Ref }
