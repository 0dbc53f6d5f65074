// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// pruner removes the objects that left the manifests of a run.
//
// The guard stops a prune that would delete too much at once. It compares the objects that are
// about to be deleted, and the ones that were deleted since the last complete run (Record.Pruned),
// with the number of objects after that run (Record.Base). Several failing runs must not together
// delete what the guard would not allow one run to delete. Objects that a person confirmed
// (Object.Agreed) do not count. The count is stored before the first deletion (Object.Counted),
// because the process may end at any point. Objects that were counted and not deleted are
// subtracted again.
type pruner struct {
	r       *run
	desired inventory.Set // the objects of the manifests
	created inventory.Set // objects that the service only creates, and no longer lists
}

// prune removes the objects that left the manifests. It runs only after everything else has been
// applied.
func (p *pruner) prune(ctx context.Context) error {
	gone, err := p.surplus(ctx)
	if err != nil || len(gone) == 0 {
		return err
	}
	if gone, err = p.release(ctx, gone); err != nil || len(gone) == 0 {
		return err
	}
	deletion := p.r.Service.Spec.Policy.Deletion
	if !p.r.Service.Spec.Prunes() {
		return newRemoval(p.r, deletion, true).removeAll(ctx, gone)
	}
	if gone, err = p.confirm(ctx, gone); err != nil {
		return err
	}
	counted, err := p.count(ctx, gone)
	defer p.r.record.discount(counted) // also if the count could not be stored: then nothing is deleted
	if err != nil {
		return err
	}
	return newRemoval(p.r, deletion, false).removeAll(ctx, gone)
}

// release takes the objects out of the inventory that the service only creates from now on. They
// stay in the cluster, without its label. It returns the others.
func (p *pruner) release(ctx context.Context, gone []inventory.Object) (rest []inventory.Object, err error) {
	var released []inventory.Object
	for _, o := range gone {
		if _, isCreated := p.created.Get(o.Key); isCreated {
			released = append(released, o)
		} else {
			rest = append(rest, o)
		}
	}
	if len(released) == 0 {
		return rest, nil
	}
	return rest, newRemoval(p.r, p.r.Service.Spec.Policy.Deletion, true).removeAll(ctx, released)
}

// surplus returns the listed objects that are neither in the manifests nor another service's.
// Missing objects leave the inventory.
func (p *pruner) surplus(ctx context.Context) ([]inventory.Object, error) {
	before := p.r.record.Objects.Len()
	if err := p.dropMissing(ctx, p.r.record.Objects.Minus(p.desired)); err != nil {
		return nil, err
	}
	gone, err := handover{p.r}.offer(ctx, p.r.record.Objects.Minus(p.desired))
	if err == nil && p.r.record.Objects.Len() < before {
		err = p.r.store(ctx) // even if the rest fails
	}
	return gone, err
}

// dropMissing removes objects from the inventory whose end watches have shown, or that were never
// created. An earlier run of this agent may have deleted them, so they count for the guard. An
// object that was taken over and never applied still has another service's label, under which no
// watch reports its end to this service.
func (p *pruner) dropMissing(ctx context.Context, objects []inventory.Object) error {
	present := inventory.NewSet(p.r.Objects.Remaining(objects)...)
	for _, o := range objects {
		if o.UID == "" || !p.r.Objects.IsSeen(o.Key) {
			present.Remove(o.Key)
		}
	}
	failures := &Failures{verb: "prune"}
	err := each(ctx, inventory.NewSet(objects...).Minus(present), refOf, failures, func(ctx context.Context, o inventory.Object) error {
		live, err := p.r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) || err == nil && p.r.foreignReason(o, live) == isOther {
			p.r.leave(ctx, o, wasGone)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return failures.orNil()
}

// confirm asks the guard, and for a person's confirmation if the guard objects. It marks the
// confirmed objects in the stored inventory, so that the confirmation survives a prune that ends
// half-way.
func (p *pruner) confirm(ctx context.Context, gone []inventory.Object) ([]inventory.Object, error) {
	departure := inventory.Departure{Base: p.r.record.guardBase(), Pruned: p.r.record.Pruned, Left: p.desired.Len(), Going: gone}
	isHeld, restoredAt := p.r.x.holds(departure)
	if !isHeld {
		return gone, nil
	}
	held := &HeldPrune{Digest: inventory.Digest(p.r.Service.UID, gone), objects: gone, base: departure.Base, restoredAt: restoredAt}
	if p.r.Service.Spec.PruneConfirmation != held.Digest {
		return nil, p.hold(ctx, held)
	}
	for i := range gone {
		gone[i].Agreed = true
		p.r.record.Objects.Put(gone[i])
	}
	p.r.record.Guarded = ""
	return gone, p.r.save(ctx)
}

// hold stores the stopped deletions, and returns them as the run's failure.
func (p *pruner) hold(ctx context.Context, held *HeldPrune) error {
	if p.r.record.Guarded != held.Digest {
		p.r.record.Guarded = held.Digest
		if err := p.r.save(ctx); err != nil {
			return err
		}
	}
	return held
}

// count counts the objects whose deletion no person has confirmed, and stores the count before the
// first of them is deleted. The guard of a later process must consider them, even if the plan wants
// them again by then.
func (p *pruner) count(ctx context.Context, gone []inventory.Object) ([]inventory.Object, error) {
	counted := p.r.record.count(gone)
	if len(counted) == 0 {
		return nil, nil
	}
	return counted, p.r.store(ctx)
}
