// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Remove removes a service that left the plan, with the rights it was applied with. If the
// cluster's own lock does not allow these rights any more, Remove deletes nothing and fails,
// because the hub decides which services leave the plan. The guard does not apply: a plan lists all
// services of the cluster, so the absence of one is intended. The engine handles plans from which
// many services vanish. Errors are those of Sync.
func (x *Executor) Remove(ctx context.Context, job Job) (Outcome, error) {
	r, err := x.newDepartingRun(job)
	if err != nil {
		return r.outcome(), err
	}
	if denied := x.params.Lock.Admit(r.account); denied != nil {
		return x.handOverOnly(ctx, r, denied)
	}
	s := newRemovalStager(r)
	err = r.take(ctx, []step{
		{"mark inventory", r.markRemoval},
		{"delete tests", r.deleteTests},
		{"hand over objects", r.handOver},
		{"run PreDelete hooks", func(ctx context.Context) error { return s.hooks.runPreDelete(ctx, s.applyPhase) }},
		{"delete objects", r.deleteAll},
		{"run PostDelete hooks", func(ctx context.Context) error { return s.hooks.runPostDelete(ctx, s.applyPhase) }},
		{"delete hooks", s.hooks.discardAll},
		{"delete inventory", r.deleteRecord},
	})
	err = r.salvage(ctx, err)
	return r.outcome(), err
}

// handOverOnly is the removal of a service whose account the cluster's own lock does not allow.
// Other services may take over its objects, for which they have accounts of their own. The service
// is removed if nothing is left that needs the account. Otherwise the error is denied.
func (x *Executor) handOverOnly(ctx context.Context, r *run, denied error) (Outcome, error) {
	err := r.take(ctx, []step{
		{"hand over objects", r.handOver},
		{"check account", func(context.Context) error {
			if r.record.NeedsAccount() {
				return denied
			}
			return nil
		}},
		{"delete inventory", r.deleteRecord},
	})
	err = r.salvage(ctx, err)
	return r.outcome(), err
}

// Release hands over the objects that other services want from a service that the guard keeps. It
// returns whether nothing is left of the service: then its removal cannot delete anything by
// mistake.
func (x *Executor) Release(ctx context.Context, job Job) (outcome Outcome, isEmpty bool, err error) {
	r, err := x.newDepartingRun(job)
	if err == nil {
		_, err = r.offerToClaimants(ctx, r.record.Objects.Objects())
	}
	if err == nil {
		err = r.store(ctx)
	}
	return r.outcome(), err == nil && r.record.Objects.Len() == 0, err
}

// newDepartingRun returns a run that acts as the account that the service was applied with.
func (x *Executor) newDepartingRun(job Job) (*run, error) {
	account, err := k8s.ParseAccount(job.Record.Account, "")
	if err != nil {
		return x.newRun(job, account, nil), reason.Errorf(reason.TenantForbidden, "inventory: %v", err)
	}
	cluster, err := x.params.Cluster.As(account)
	return x.newRun(job, account, cluster), err
}

// markRemoval records that objects are about to be deleted, in case the service returns before all
// are gone. It also records the last spec's settings for the deletion, if this process knows them.
func (r *run) markRemoval(ctx context.Context) error {
	record := &r.record
	if record.Objects.Len() == 0 {
		return nil
	}
	prune, deletion := record.Prune, record.Deletion
	if r.Service.Name != "" {
		prune, deletion = r.Service.Spec.Prunes(), r.Service.Spec.Policy.Deletion
	}
	if record.Touched && prune == record.Prune && deletion == record.Deletion {
		return nil
	}
	record.Touched, record.Prune, record.Deletion = true, prune, deletion
	return r.store(ctx)
}

// deleteTests deletes objects that tests have left.
func (r *run) deleteTests(ctx context.Context) error {
	failures := &Failures{verb: "delete test"}
	err := each(ctx, r.record.Tests.Objects, refOf, failures, func(ctx context.Context, o inventory.Object) error {
		return r.withLiveObject(ctx, o, deleteInBackground(r.cluster))
	})
	if err != nil {
		return err
	}
	return failures.orNil()
}

// handOver hands over the objects that other services of the plan want. If nothing is left, as
// after a renaming, nothing is deleted, and so the hooks for a deletion do not run.
func (r *run) handOver(ctx context.Context) error {
	before := r.record.Objects.Objects()
	if _, err := r.offerToClaimants(ctx, before); err != nil {
		return err
	}
	if err := r.requireNothingLent(); err != nil {
		return err
	}
	if len(before) == 0 || r.record.Objects.Len() > 0 {
		return nil
	}
	r.record.Hooks.DeleteHooks = nil
	return r.store(ctx)
}

// deleteAll removes all objects of the service.
func (r *run) deleteAll(ctx context.Context) error {
	gone, err := r.offerToClaimants(ctx, r.record.Objects.Objects())
	if err != nil {
		return err
	}
	if err := r.newRemoval(r.record.Deletion, !r.record.deletesObjects()).removeAll(ctx, gone); err != nil {
		return err
	}
	return r.requireNothingLent()
}

func (r *run) deleteRecord(ctx context.Context) error {
	if r.record.HasGenerated {
		if err := r.x.params.Renderer.Generated.Forget(ctx, r.Name); err != nil {
			return err
		}
	}
	if err := r.x.params.Inventories.Delete(ctx, r.Name); err != nil {
		return err
	}
	r.record.Record = inventory.Record{Service: r.Name}
	r.Progress.Saved(r.record.Record)
	return nil
}
