// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// prune parts with what left the manifests. It runs only after everything else has been applied.
func (r *run) prune(ctx context.Context) error {
	gone, err := r.surplus(ctx)
	if err != nil || len(gone) == 0 {
		return err
	}
	how := parting{deletion: r.service.Spec.Policy.Deletion, detach: !r.service.Spec.Prune}
	if how.detach {
		return r.part(ctx, gone, how)
	}
	if gone, err = r.agree(ctx, gone); err != nil {
		return err
	}
	counted, err := r.count(ctx, gone)
	if err != nil {
		return err
	}
	defer r.discount(counted)
	return r.part(ctx, gone, how)
}

// surplus are the objects that the manifests no longer hold, nor another service. Those that are gone leave the inventory.
func (r *run) surplus(ctx context.Context) ([]inventory.Object, error) {
	before := r.record.Objects.Len()
	if err := r.forgetMissing(ctx, r.record.Objects.Minus(r.desired)); err != nil {
		return nil, err
	}
	gone, err := r.bequeath(ctx, r.record.Objects.Minus(r.desired))
	if err == nil && r.record.Objects.Len() < before {
		err = r.store(ctx) // whatever becomes of the rest
	}
	return gone, err
}

// agree asks the guard, and a person where the guard does. What was agreed to is marked in the stored inventory, so that the
// agreement survives a prune that ends half-way.
func (r *run) agree(ctx context.Context, gone []inventory.Object) ([]inventory.Object, error) {
	departure := inventory.Departure{Base: r.base(), Pruned: r.record.Pruned, Left: r.desired.Len(), Going: gone}
	if !r.engine.params.Settings.Guard.Holds(departure) {
		return gone, nil
	}
	held := &heldPrune{digest: inventory.Digest(r.service.UID, gone), objects: gone, base: departure.Base}
	if r.service.Spec.PruneConfirmation != held.digest {
		return nil, r.guarded(ctx, held)
	}
	for i := range gone {
		gone[i].Agreed = true
		r.record.Objects.Put(gone[i])
	}
	r.record.Guarded = ""
	return gone, r.save(ctx)
}

// count counts the objects that nobody has agreed to part with as pruned, and stores that before the first of them goes: the guard of a
// process that comes after this one has to know of them, also of those that are wanted again by then. It returns those that it has
// counted, and marks them in gone.
func (r *run) count(ctx context.Context, gone []inventory.Object) ([]inventory.Object, error) {
	var counted []inventory.Object
	for i := range gone {
		if gone[i].Agreed || gone[i].Counted {
			continue
		}
		gone[i].Counted = true
		r.record.Objects.Put(gone[i])
		counted = append(counted, gone[i])
	}
	if len(counted) == 0 {
		return nil, nil
	}
	r.record.Pruned += len(counted)
	return counted, r.store(ctx)
}

// discount takes back what was counted and has been left alone all the same.
func (r *run) discount(counted []inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range counted {
		if _, going := r.going.Get(o.Key); going {
			continue
		}
		r.record.Pruned--
		if left, held := r.record.Objects.Get(o.Key); held {
			left.Counted = false
			r.record.Objects.Put(left)
		}
	}
}

// startCounting forgets what was pruned, and what was counted and kept: another service is still to take it over.
func (r *run) startCounting() {
	if r.record.Pruned == 0 {
		return
	}
	r.record.Pruned = 0
	for _, o := range r.record.Objects.Objects() {
		if o.Counted {
			o.Counted = false
			r.record.Objects.Put(o)
		}
	}
}

// base is what the guard measures against.
func (r *run) base() int {
	if r.record.Base > 0 {
		return r.record.Base
	}
	return r.record.Objects.Len()
}

// guarded remembers what was stopped, and returns it as the run's failure.
func (r *run) guarded(ctx context.Context, held *heldPrune) error {
	if r.record.Guarded != held.digest {
		r.record.Guarded = held.digest
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return held
}

// heldPrune is the error of a run whose prune the guard stopped.
type heldPrune struct {
	digest  string // what a person has to agree to
	objects []inventory.Object
	base    int
}

// Error implements error.
func (h *heldPrune) Error() string {
	return fmt.Sprintf("pruning would take %d of %d objects away (%s); restore the manifests, or confirm with leat prune confirm, "+
		"which sets sync.pruneConfirmation: %s in the service", len(h.objects), h.base, describe(h.objects), h.digest)
}

// Unwrap makes a problem of it.
func (h *heldPrune) Unwrap() error {
	return &reason.Problem{Reason: reason.PruneGuarded}
}

// guard is h in a form for reports.
func (h *heldPrune) guard() report.Guarded {
	g := report.Guarded{Digest: h.digest}
	for _, o := range h.objects[:min(len(h.objects), report.MaxObjects)] {
		g.Objects = append(g.Objects, o.Ref)
	}
	return g
}

// withdraw notes that objects are about to go, for the case that the service comes back before all are gone, and what the
// service's last spec, if this process has seen it, says about their going.
func (r *run) withdraw(ctx context.Context) error {
	if r.record.Objects.Len() == 0 {
		return nil
	}
	prune, deletion := r.record.Prune, r.record.Deletion
	if r.service.Name != "" {
		prune, deletion = r.service.Spec.Prune, r.service.Spec.Policy.Deletion
	}
	if r.record.Touched && prune == r.record.Prune && deletion == r.record.Deletion {
		return nil
	}
	r.record.Touched, r.record.Prune, r.record.Deletion = true, prune, deletion
	return r.store(ctx)
}

// deleteAll parts with all objects of a service that left the plan. The guard does not apply: the plan names what it holds, so
// the service's absence is a statement. Whole services that vanish together are the engine's concern.
func (r *run) deleteAll(ctx context.Context) error {
	gone, err := r.bequeath(ctx, r.record.Objects.Objects())
	if err != nil {
		return err
	}
	how := parting{deletion: r.record.Deletion, detach: !r.deletes()}
	if err := r.part(ctx, gone, how); err != nil {
		return err
	}
	return r.nothingLent()
}

// handOver lets other services of the plan take what they want of one that left it. Of a service that is gone thereby, as one that
// was renamed is, nothing is deleted, and so its hooks for that do not run.
func (r *run) handOver(ctx context.Context) error {
	before := r.record.Objects.Objects()
	if _, err := r.bequeath(ctx, before); err != nil {
		return err
	}
	if err := r.nothingLent(); err != nil {
		return err
	}
	if len(before) == 0 || r.record.Objects.Len() > 0 {
		return nil
	}
	r.record.Hooks.Farewell = nil
	return r.store(ctx)
}

// nothingLent fails while others have not taken what they want.
func (r *run) nothingLent() error {
	if lent := r.unit.member.Lent(); len(lent) > 0 {
		return reason.Errorf(reason.ObjectClaimed, "waits for another service of the plan to take over %s", describe(lent))
	}
	return nil
}

// deletes tells whether the objects of a service that goes are to go, too.
func (r *run) deletes() bool {
	return r.record.Prune && !r.record.Deletion.Detach
}

func (r *run) deleteRecord(ctx context.Context) error {
	if err := r.engine.params.Inventories.Delete(ctx, r.unit.name); err != nil {
		return err
	}
	r.record = inventory.Record{Service: r.unit.name}
	r.unit.keep(r.record)
	r.engine.watch(r.unit.name, r.record.Objects)
	return nil
}

// parting says how objects leave a service.
type parting struct {
	deletion syncpolicy.Deletion
	detach   bool // they stay in the cluster
}

// part lets objects go, the last wave first. A wave has to be gone before the next one goes; one with failures is the last.
func (r *run) part(ctx context.Context, gone []inventory.Object, how parting) error {
	for _, wave := range inventory.Reversed(gone) {
		if err := r.partWave(ctx, wave, how); err != nil {
			return err
		}
		r.turn.renew()
	}
	return nil
}

func (r *run) partWave(ctx context.Context, groups [][]inventory.Object, how parting) error {
	failed, leaving := &failedObjects{verb: "prune"}, &leaving{}
	for _, group := range groups {
		err := each(ctx, group, refOf, failed, func(ctx context.Context, o inventory.Object) error {
			return r.partOne(ctx, o, how, leaving)
		})
		if err != nil {
			return err
		}
	}
	if err := r.awaitGone(ctx, leaving.objects, how.deletion, failed); err != nil {
		return err
	}
	return failed.orNil()
}

func refOf(o inventory.Object) inventory.Ref { return o.Ref }
