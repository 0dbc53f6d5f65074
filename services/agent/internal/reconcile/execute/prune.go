// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// prune removes what left the manifests. It runs only after everything else has been applied.
func (r *run) prune(ctx context.Context, desired inventory.Set) error {
	gone, err := r.surplus(ctx, desired)
	if err != nil || len(gone) == 0 {
		return err
	}
	deletion := r.Service.Spec.Policy.Deletion
	if !r.Service.Spec.Prune {
		return r.newRemoval(deletion, true).removeAll(ctx, gone)
	}
	if gone, err = r.confirm(ctx, gone, desired); err != nil {
		return err
	}
	counted, err := r.count(ctx, gone)
	if err != nil {
		return err
	}
	defer r.record.discount(counted)
	return r.newRemoval(deletion, false).removeAll(ctx, gone)
}

// surplus returns the listed objects that are neither in the manifests nor another service's. Objects
// that are gone leave the inventory.
func (r *run) surplus(ctx context.Context, desired inventory.Set) ([]inventory.Object, error) {
	before := r.record.Objects.Len()
	if err := r.dropMissing(ctx, r.record.Objects.Minus(desired)); err != nil {
		return nil, err
	}
	gone, err := r.offerToClaimants(ctx, r.record.Objects.Minus(desired))
	if err == nil && r.record.Objects.Len() < before {
		err = r.store(ctx) // whatever happens to the rest
	}
	return gone, err
}

// dropMissing takes those of the objects out of the inventory whose end watches have shown, or that
// were never created. An earlier run of this agent may have deleted them, so they count for the guard.
// An object that was taken over and never applied still has another service's label, under which no
// watch reports its end to this service.
func (r *run) dropMissing(ctx context.Context, objects []inventory.Object) error {
	present := inventory.NewSet(r.Objects.Remaining(objects)...)
	for _, o := range objects {
		if o.UID == "" || !r.Objects.IsSeen(o.Key) {
			present.Remove(o.Key)
		}
	}
	failures := &Failures{verb: "prune"}
	err := each(ctx, inventory.NewSet(objects...).Minus(present), refOf, failures, func(ctx context.Context, o inventory.Object) error {
		live, err := r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) || err == nil && r.foreignReason(o, live) == isOther {
			r.leave(ctx, o, wasGone)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return failures.orNil()
}

// confirm asks the guard, and a person if the guard objects. It marks the confirmed objects in the
// stored inventory, so that the confirmation survives a prune that ends half-way.
func (r *run) confirm(ctx context.Context, gone []inventory.Object, desired inventory.Set) ([]inventory.Object, error) {
	departure := inventory.Departure{Base: r.record.guardBase(), Pruned: r.record.Pruned, Left: desired.Len(), Going: gone}
	if !r.x.params.Guard.Holds(departure) {
		return gone, nil
	}
	held := &HeldPrune{Digest: inventory.Digest(r.Service.UID, gone), objects: gone, base: departure.Base}
	if r.Service.Spec.PruneConfirmation != held.Digest {
		return nil, r.hold(ctx, held)
	}
	for i := range gone {
		gone[i].Agreed = true
		r.record.Objects.Put(gone[i])
	}
	r.record.Guarded = ""
	return gone, r.save(ctx)
}

// hold stores what the guard has stopped, and returns it as the run's failure.
func (r *run) hold(ctx context.Context, held *HeldPrune) error {
	if r.record.Guarded != held.Digest {
		r.record.Guarded = held.Digest
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return held
}

// count counts the objects that nobody has agreed to delete, and stores the count before the first of
// them is deleted: the guard of a later process must know of them, even if the plan wants them again by
// then.
func (r *run) count(ctx context.Context, gone []inventory.Object) ([]inventory.Object, error) {
	counted := r.record.count(gone)
	if len(counted) == 0 {
		return nil, nil
	}
	return counted, r.store(ctx)
}
