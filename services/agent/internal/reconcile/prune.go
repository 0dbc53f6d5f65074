// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// prune deletes what left the manifests. It runs only after everything else has been applied.
func (r *run) prune(ctx context.Context) error {
	gone := r.record.Objects.Minus(r.desired)
	if len(gone) == 0 {
		return nil
	}
	if !r.service.Spec.Prune {
		return r.part(ctx, nil, gone)
	}
	decision := r.engine.params.Settings.Guard.Decide(r.base(), gone, r.confirmed())
	if decision.Stopped() {
		return r.guarded(ctx, decision.Guarded)
	}
	return r.part(ctx, decision.Delete, decision.Detach)
}

// base is what the guard measures against.
func (r *run) base() int {
	if r.record.Base > 0 {
		return r.record.Base
	}
	return r.record.Objects.Len()
}

// confirmed tells whether a person has agreed to this prune, by naming the spec whose prune was stopped.
func (r *run) confirmed() bool {
	confirmation := r.service.Spec.PruneConfirmation
	return confirmation != "" && (confirmation == r.record.Guarded || confirmation == r.service.SpecDigest)
}

// guarded remembers which spec was stopped, so that a confirmation of it can be told from an older one.
func (r *run) guarded(ctx context.Context, objects []inventory.Object) error {
	if r.record.Guarded != r.service.SpecDigest {
		r.record.Guarded = r.service.SpecDigest
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return problemf(PruneGuarded,
		"pruning would delete %d of %d objects (%s); restore the manifests, or confirm with sync.pruneConfirmation: %s in the service",
		len(objects), r.base(), describe(objects), r.service.SpecDigest)
}

// withdraw notes that objects are about to go, for the case that the service comes back before all are gone. What the
// service's last spec said about pruning stays as it was.
func (r *run) withdraw(ctx context.Context) error {
	if r.record.Touched || r.record.Objects.Len() == 0 {
		return nil
	}
	r.record.Touched = true
	if err := r.engine.params.Inventories.Save(ctx, r.record); err != nil {
		return fmt.Errorf("store inventory: %w", err)
	}
	r.unit.keep(r.record)
	return nil
}

// deleteAll takes all objects of a service that left the plan out of the cluster, or only Leat's label off them when the
// service did not prune.
func (r *run) deleteAll(ctx context.Context) error {
	if !r.record.Prune {
		return r.part(ctx, nil, r.record.Objects.Objects())
	}
	// The guard does not apply: the plan names what it holds, so the service's absence is a statement. Whole services
	// that vanish together are the engine's concern.
	decision := r.engine.params.Settings.Guard.Decide(0, r.record.Objects.Objects(), true)
	return r.part(ctx, decision.Delete, decision.Detach)
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

// part deletes some objects and detaches others; both leave the inventory.
func (r *run) part(ctx context.Context, gone, detached []inventory.Object) error {
	failed := &failedObjects{verb: "prune"}
	if err := each(ctx, gone, refOf, failed, r.deleteOne); err != nil {
		return err
	}
	if err := each(ctx, detached, refOf, failed, r.detachOne); err != nil {
		return err
	}
	return failed.orNil()
}

func refOf(o inventory.Object) inventory.Ref { return o.Ref }

func (r *run) deleteOne(ctx context.Context, o inventory.Object) error {
	err := r.certain(ctx, o, r.engine.params.Cluster.Delete)
	if err == nil {
		r.leave(ctx, o, "pruned")
	}
	return err
}

func (r *run) detachOne(ctx context.Context, o inventory.Object) error {
	err := r.certain(ctx, o, r.engine.params.Cluster.Release)
	if err == nil {
		r.leave(ctx, o, "left the service and stays in the cluster")
	}
	return err
}

// certain calls act for the object that the inventory means. Where its UID is not known, or not the one in the cluster,
// the label decides: an object that does not carry this service's label is left alone.
func (r *run) certain(ctx context.Context, o inventory.Object, act func(context.Context, inventory.Object) error) error {
	if o.UID != "" {
		if err := act(ctx, o); !errors.Is(err, ErrReplaced) {
			return ignoreNotFound(err)
		}
	}
	live, err := r.engine.params.Cluster.Get(ctx, o.Ref)
	if err != nil {
		return ignoreNotFound(err)
	}
	if live.GetLabels()[ServiceLabel] != r.unit.name {
		return nil
	}
	o.UID = string(live.GetUID())
	if err := act(ctx, o); !errors.Is(err, ErrReplaced) {
		return ignoreNotFound(err)
	}
	return problemf(ApplyRejected, "is being replaced all the time; it will be tried again")
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// leave takes an object out of the inventory. It is called concurrently.
func (r *run) leave(ctx context.Context, o inventory.Object, what string) {
	r.unit.mu.Lock()
	r.record.Objects.Remove(o.Key)
	r.unit.record.Objects.Remove(o.Key)
	r.unit.observed.drop(o.Key)
	r.unit.unsaved = true
	phase := r.unit.status.Phase
	r.unit.mu.Unlock()

	r.engine.claims.drop(o.Key, r.unit.name)
	r.engine.params.Logger.InfoContext(ctx, "object left the inventory", slog.String("leat.service", r.unit.name),
		slog.String("object", o.String()), slog.String("outcome", what))
	r.engine.events.publish(Event{Time: time.Now(), Service: r.unit.name, Phase: phase, Object: &o.Ref, Message: what})
}
