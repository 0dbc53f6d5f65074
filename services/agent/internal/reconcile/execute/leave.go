// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"log/slog"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Remove removes a service that left the plan, with the rights it was applied with. If the
// cluster's own lock does not allow these rights any more, Remove deletes nothing and fails,
// because the hub decides which services leave the plan. The guard does not apply: a plan lists all
// services of the cluster, so the absence of one is intended. The engine handles plans from which
// many services vanish. It returns the errors of Sync.
func (x *Executor) Remove(ctx context.Context, job Job) (Outcome, error) {
	r, err := x.newDepartingRun(job)
	if err != nil {
		return r.outcome(), err
	}
	if denied := x.params.Lock.Admit(r.account); denied != nil {
		return x.handOverOnly(ctx, r, denied)
	}
	s, l := newRemovalStager(r), leaving{handover{r}}
	err = r.take(ctx, []step{
		{"mark inventory", l.mark},
		{"delete tests", l.deleteTests},
		{"hand over objects", l.handOver},
		{"run PreDelete hooks", func(ctx context.Context) error { return s.hooks.runPreDelete(ctx, s.applyPhase) }},
		{"delete objects", l.deleteAll},
		{"run PostDelete hooks", func(ctx context.Context) error { return s.hooks.runPostDelete(ctx, s.applyPhase) }},
		{"delete hooks", s.hooks.discardAll},
		{"delete inventory", l.deleteRecord},
	})
	err = r.salvage(ctx, err)
	return r.outcome(), err
}

// handOverOnly is the removal of a service whose account the cluster's own lock does not allow.
// Other services may take over its objects, for which they have accounts of their own. The service
// is removed if nothing is left that needs the account. Otherwise the error is denied.
func (x *Executor) handOverOnly(ctx context.Context, r *run, denied error) (Outcome, error) {
	l := leaving{handover{r}}
	err := r.take(ctx, []step{
		{"hand over objects", l.handOver},
		{"check account", func(context.Context) error {
			if r.record.NeedsAccount() {
				return denied
			}
			return nil
		}},
		{"delete inventory", l.deleteRecord},
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
		_, err = handover{r}.offer(ctx, r.record.Objects.Objects())
	}
	if err == nil {
		err = r.store(ctx)
	}
	return r.outcome(), err == nil && r.record.Objects.Len() == 0, err
}

// Spare notes in the inventory of a dry run that its objects stay if the service leaves, which the next process cannot
// know otherwise. The next apply notes what its spec wants.
func (x *Executor) Spare(ctx context.Context, job Job) (Outcome, error) {
	r := x.newRun(job, k8s.Account{}, nil)
	if !r.record.Prune || r.record.Objects.Len() == 0 {
		return r.outcome(), nil
	}
	r.record.Prune = false
	return r.outcome(), r.store(ctx)
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

// leaving are the steps in which a service leaves the cluster.
type leaving struct{ handover }

// mark records that objects are about to be deleted, in case the service returns before all
// are gone. It also records the last spec's settings for the deletion, if this process knows them.
// What was a dry run to the end deletes nothing: another tool may deliver the objects again.
func (l leaving) mark(ctx context.Context) error {
	record := &l.r.record
	if record.Objects.Len() == 0 {
		return nil
	}
	prune, deletion := record.Prune, record.Deletion
	if l.r.Service.Name != "" {
		spec := l.r.Service.Spec
		prune, deletion = spec.Prunes() && !spec.DryRun, spec.Policy.Deletion
	}
	if record.Touched && prune == record.Prune && deletion == record.Deletion {
		return nil
	}
	record.Touched, record.Prune, record.Deletion = true, prune, deletion
	return l.r.store(ctx)
}

// deleteTests deletes objects that tests have left.
func (l leaving) deleteTests(ctx context.Context) error {
	failures := &Failures{verb: "delete test"}
	err := each(ctx, l.r.record.Tests.Objects, refOf, failures, func(ctx context.Context, o inventory.Object) error {
		return l.r.withLiveObject(ctx, o, deleteInBackground(l.r.cluster))
	})
	if err != nil {
		return err
	}
	return failures.orNil()
}

// handOver hands over the objects that other services of the plan want. If nothing is left, as
// after a renaming, nothing is deleted, and so the hooks for a deletion do not run.
func (l leaving) handOver(ctx context.Context) error {
	before := l.r.record.Objects.Objects()
	if _, err := l.offer(ctx, before); err != nil {
		return err
	}
	if err := l.requireNothingLent(); err != nil {
		return err
	}
	if len(before) == 0 || l.r.record.Objects.Len() > 0 {
		return nil
	}
	l.r.record.Hooks.DeleteHooks = nil
	return l.r.store(ctx)
}

// deleteAll removes all objects of the service.
func (l leaving) deleteAll(ctx context.Context) error {
	gone, err := l.offer(ctx, l.r.record.Objects.Objects())
	if err != nil {
		return err
	}
	isAgent, err := l.r.holdsAgent(ctx, gone)
	if err != nil {
		return err
	}
	if isAgent && l.r.record.deletesObjects() {
		l.r.log(ctx, slog.LevelWarn, "service runs this agent, so its objects stay in the cluster and are no longer Leat's",
			slog.String("advice", "delete them with helm uninstall or kubectl; "+howToRemove))
	}
	m := newRemoval(l.r, l.r.record.Deletion, isAgent || !l.r.record.deletesObjects())
	m.leavesAgent = true
	if err := m.removeAll(ctx, gone); err != nil {
		return err
	}
	return l.requireNothingLent()
}

func (l leaving) deleteRecord(ctx context.Context) error {
	if l.r.record.HasGenerated {
		if err := l.r.x.params.Renderer.Generated.Forget(ctx, l.r.Name); err != nil {
			return err
		}
	}
	if err := l.r.x.params.Inventories.Delete(ctx, l.r.Name); err != nil {
		return err
	}
	l.r.record.Record = inventory.Record{Service: l.r.Name}
	l.r.Progress.Saved(l.r.record.Record)
	return nil
}
