// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/compare"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// rehearsal is what a unit knows of its latest dry run. The unit's lock guards it.
type rehearsal struct {
	of     inventory.Applied // the inputs
	seen   fingerprint.Sum   // what was known of the cluster
	report *report.DryRun    // nil before the first, and when it failed
}

// rehearses tells that a dry run is to be made: of other inputs than before; of the same where somebody asks, the last one
// failed, or at a refresh the objects are no longer what they were. u.mu is held, as in what follows.
func (u *unit) rehearses(now time.Time) bool {
	s := u.desired
	if u.order != decide.Follow || !s.Spec.DryRun || s.Spec.Paused || len(s.Bundles) == 0 {
		return false
	}
	return u.forced || u.dirty || !u.rehearsal.of.SameInputs(s.Inputs()) || !now.Before(u.refresh) && u.rehearsal.seen != u.objects.Signature()
}

// relax puts off the refresh of a dry run that has nothing new to tell.
func (u *unit) relax(now time.Time) {
	if u.desired.Spec.DryRun && !now.Before(u.refresh) && !u.rehearses(now) {
		u.refresh = now.Add(backoff.Jitter(u.engine.refreshPause(), refreshJitter))
	}
}

// rehearsed is the report of the latest dry run; nil when the service is not dry, or what it is to run has changed since.
func (u *unit) rehearsed() *report.DryRun {
	if !u.desired.Spec.DryRun || !u.rehearsal.of.SameInputs(u.desired.Inputs()) {
		return nil
	}
	return u.rehearsal.report
}

// once tells that the cluster holds what was applied before the service was made dry.
func (u *unit) once() bool {
	return u.desired.Spec.DryRun && !u.stored.Applied.At.IsZero() && !u.stored.Touched
}

// rehearse carries out a dry run. It writes nothing, neither in the cluster nor in the inventory.
func (u *unit) rehearse(ctx context.Context) {
	u.work(ctx, decide.Preview, func(ctx context.Context, r *run) error {
		r.news = false // it brings nothing
		u.mu.Lock()
		next := rehearsal{of: r.service.Inputs(), seen: u.objects.Signature()}
		u.rehearsal.report = nil
		u.mu.Unlock()
		err := r.take(ctx, []step{
			{"understand", r.understand},
			{"render", r.render},
			{"compare", func(ctx context.Context) (err error) {
				next.report, err = r.compare(ctx)
				return err
			}},
		})
		if ctx.Err() == nil {
			u.mu.Lock()
			u.rehearsal = next
			u.mu.Unlock()
		}
		return err
	})
}

// compare lets the API server say what the run would change. Every object is tried.
func (r *run) compare(ctx context.Context) (*report.DryRun, error) {
	d := differ{cluster: r.cluster, run: r, service: r.service, secrets: compare.Secrets{Substitution: r.result.Substitution}}
	failed := &failedObjects{verb: "compare"}
	for _, m := range r.members() {
		err := d.object(ctx, m.Object)
		if fatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failed.add(inventory.RefOf(m.Object), err)
		}
	}
	if err := failed.orNil(); err != nil {
		return nil, err
	}
	same := d.desired.Len()
	if err := d.pruned(ctx, r.record.Objects); err != nil {
		return nil, err
	}
	return summarise(d.found, same), nil
}

// members are the objects that the service consists of, without hooks.
func (r *run) members() (all []order.Member) {
	for _, stage := range r.schedule.Stages {
		for _, m := range stage.Members {
			if !m.Hook {
				all = append(all, m)
			}
		}
	}
	return all
}

// summarise counts differences. Wanted is how many objects there are to be.
func summarise(found []report.Difference, wanted int) *report.DryRun {
	d := &report.DryRun{Unchanged: wanted}
	slices.SortStableFunc(found, func(a, b report.Difference) int { return int(b.Change) - int(a.Change) })
	for _, f := range found {
		switch f.Change {
		case report.Create:
			d.Created++
			d.Unchanged--
		case report.Update:
			d.Updated++
			d.Unchanged--
		case report.Delete:
			d.Deleted++
		case report.Impossible: // fails the dry run before it comes to this
		}
		if len(d.Changes) < report.MaxDryRunChanges {
			d.Changes = append(d.Changes, report.DryRunChange{Ref: f.Ref, Change: f.Change})
		}
	}
	return d
}
