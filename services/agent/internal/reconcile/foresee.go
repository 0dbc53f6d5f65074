// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Diff says what a run of a service would change, by letting the API server do it without keeping it. A candidate stands in for
// the bundles that the plan names; everything else is as the plan says. Objects of kinds that the bundle itself brings are
// reported as created, and hooks not at all. What cannot be applied is reported with its problem, and does not keep the rest
// from being compared. Errors: ErrUnknownService, those of rendering, *Problem.
func (e *Engine) Diff(ctx context.Context, service string, candidate ...plan.Bundle) ([]report.Difference, error) {
	u, err := e.unit(service)
	if err != nil {
		return nil, err
	}
	r := u.foresee(candidate)
	if len(r.service.Bundles) == 0 {
		return nil, nil // not resolved, or no longer in the plan: there is nothing to compare with
	}
	if err := r.assume(decide.Apply); err != nil {
		return nil, err
	}
	if err := r.understand(ctx); err != nil {
		return nil, err
	}
	if err := r.render(ctx); err != nil {
		return nil, err
	}
	return r.differences(ctx)
}

// foresee makes a run that changes nothing.
func (u *unit) foresee(candidate []plan.Bundle) *run {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := &run{unit: u, engine: u.engine, service: u.newest, record: u.stored, rules: submit.NewRules(u.newest.Spec.Policy)}
	r.record.Objects = u.objects.Listed()
	if len(candidate) > 0 {
		r.service.Bundles = candidate
	}
	return r
}

func (r *run) differences(ctx context.Context) ([]report.Difference, error) {
	d := differ{
		run: r, cluster: r.cluster, service: r.service,
		secrets: compare.Secrets{
			Substitution: r.result.Substitution, IsStale: r.service.ConfigDigest != r.record.Applied.ConfigDigest,
		},
	}
	if err := spare(ctx, d.cluster, r.service, r.schedule, &d.desired); err != nil {
		return nil, err
	}
	for _, o := range r.schedule.Objects() { // hooks are run, not changed
		if err := d.tried(ctx, o, d.object(ctx, o)); err != nil {
			return nil, err
		}
	}
	if err := d.pruned(ctx, r.record.Objects); err != nil {
		return nil, err
	}
	d.holdBack()
	return d.found, nil
}

// tried notes why an object could not be applied. The error is one that ends the comparison.
func (d *differ) tried(ctx context.Context, o *unstructured.Unstructured, err error) error {
	if err == nil {
		return nil
	}
	ref := inventory.RefOf(o)
	if fatal(ctx, err) {
		return fmt.Errorf("compare %s: %w", ref.Key, err)
	}
	if o.GetNamespace() == "" { // as it was when it was looked for
		if full, completed := complete(ctx, d.cluster, d.service, o); completed == nil {
			ref = inventory.RefOf(full)
		}
	}
	d.found = append(d.found, report.Difference{Ref: ref, Change: report.Impossible, Problem: reason.ProblemOf(err)})
	return nil
}

// after is what the run would make of an object that exists. Nobody adopts anything: fields that only an adoption would take away are
// not seen.
func (d *differ) after(ctx context.Context, full, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if err := d.run.mayTake(ctx, inventory.RefOf(full).Key, live); err != nil {
		return nil, err
	}
	after, err := d.run.submitter().DryRun(ctx, full, live, d.run.repairs(full))
	if _, immutable := errors.AsType[*k8s.ImmutableError](err); immutable && d.service.Spec.Policy.Recreate {
		return full, nil
	}
	return after, err
}

// mayTake tells whether the run might have an object that exists, without taking it.
func (r *run) mayTake(ctx context.Context, k inventory.Key, live *unstructured.Unstructured) error {
	if r.familiar(k) {
		return nil
	}
	owner := cmp.Or(r.engine.ownership.Owner(k), live.GetLabels()[k8s.ServiceLabel], r.service.Name)
	switch {
	case owner == r.service.Name:
		return r.admit(k, live)
	case !r.engine.ownership.Yields(ctx, owner, k):
		return ownership.ClaimedBy(owner)
	}
	return nil
}

// holdBack notes what the guard would keep from being deleted.
func (d *differ) holdBack() {
	r := d.run
	var gone []inventory.Object
	for _, f := range d.found {
		if o, listed := r.record.Objects.Get(f.Ref.Key); listed && f.Change == report.Delete {
			gone = append(gone, o)
		}
	}
	departure := inventory.Departure{Base: r.base(), Pruned: r.record.Pruned, Left: d.desired.Len(), Going: gone}
	if !r.engine.params.Settings.Guard.Holds(departure) || r.service.Spec.PruneConfirmation == inventory.Digest(r.service.UID, gone) {
		return
	}
	held := reason.Errorf(reason.PruneGuarded, "the guard would keep the service from deleting %d of %d objects", len(gone), departure.Base)
	for i := range d.found {
		if d.found[i].Change == report.Delete {
			d.found[i].Problem = held
		}
	}
}
