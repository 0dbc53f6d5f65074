// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// errImpatient ends a wait for health that has taken too long.
var errImpatient = errors.New("waited too long")

// isDefinition tells objects that bring a kind along, which has to be known before the next rank.
func isDefinition(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind().String() == "CustomResourceDefinition.apiextensions.k8s.io"
}

// arrange puts the objects into their order.
func (r *run) arrange() (err error) {
	r.schedule, err = order.New(r.result.Objects, r.record.Applied.At.IsZero())
	return err
}

// apply applies the objects up to those of the Sync phase, stage by stage. In a run that brings nothing new, hooks are left out and
// nothing is waited for: everything has been through its order once.
func (r *run) apply(ctx context.Context) error {
	if err := r.spare(ctx); err != nil {
		return err
	}
	if err := r.openHooks(ctx); err != nil {
		return err
	}
	return r.stages(ctx, order.Foundation, order.PreSync, order.Sync)
}

// finish runs what comes when everything is applied, healthy and rid of what left the manifests.
func (r *run) finish(ctx context.Context) error {
	if err := r.stages(ctx, order.PostSync); err != nil {
		return err
	}
	return r.sweepHooks(ctx)
}

func (r *run) stages(ctx context.Context, phases ...order.Phase) error {
	for _, phase := range phases {
		if err := r.phase(ctx, phase); err != nil {
			r.compensate(ctx, err)
			return err
		}
	}
	return nil
}

// phase applies the stages of a phase. Hooks are deleted at its end, not at theirs: later ones may need what earlier ones made.
func (r *run) phase(ctx context.Context, phase order.Phase) error {
	r.tidying = nil
	var err error
	for _, s := range r.schedule.Of(phase) {
		if err = r.stage(ctx, s); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return err
	}
	return cmp.Or(err, r.tidy(ctx))
}

// spare notes the objects that are in the manifests and not applied now: they are not to be pruned.
func (r *run) spare(ctx context.Context) error {
	return spare(ctx, r.cluster, r.service, r.schedule, &r.desired)
}

func spare(ctx context.Context, cluster k8s.API, s plan.Service, schedule order.Schedule, desired *inventory.Set) error {
	for _, o := range schedule.Skipped {
		if o.GetName() == "" {
			continue
		}
		o, err := complete(ctx, cluster, s, o)
		if fatal(ctx, err) {
			return err
		}
		if err == nil { // otherwise there is no such kind, and hence no object
			desired.Put(inventory.Object{Ref: inventory.RefOf(o)})
		}
	}
	return nil
}

// stage applies one stage. Every object of it is tried; a stage with failures is the last.
func (r *run) stage(ctx context.Context, s order.Stage) error {
	r.turn.renew()
	r.wave = s.Wave
	failed := &failedObjects{verb: "apply"}
	var hooks []*hook
	var refs []inventory.Ref
	for _, rank := range s.Ranks() {
		if rank.Strict && len(failed.objects) > 0 {
			break
		}
		applied, err := r.applyObjects(ctx, rank.Members, failed)
		if err != nil {
			return err
		}
		launched, err := r.launchAll(ctx, s.Phase, rank.Members, failed)
		if err != nil {
			return err
		}
		refs, hooks = append(refs, applied...), append(hooks, launched...)
	}
	if err := failed.orNil(); err != nil {
		return err
	}
	if err := r.awaitHooks(ctx, hooks); err != nil {
		return err
	}
	return r.awaitHealthy(ctx, s, refs)
}

// applyObjects applies those of the members that are no hooks.
func (r *run) applyObjects(ctx context.Context, members []order.Member, failed *failedObjects) ([]inventory.Ref, error) {
	var objects []*unstructured.Unstructured
	for _, m := range members {
		if !m.Hook {
			objects = append(objects, m.Object)
		}
	}
	if len(objects) == 0 {
		return nil, nil
	}
	prepared, err := r.prepare(ctx, objects, failed)
	if err != nil {
		return nil, err
	}
	if prepared, err = r.claim(ctx, prepared, failed); err != nil {
		return nil, err
	}
	// The inventory grows before the cluster does, so that a crash in between leaves nothing behind that nobody knows of.
	if err := r.enlist(ctx, prepared); err != nil {
		return nil, err
	}
	var unchangeable stubborn
	if err := each(ctx, prepared, inventory.RefOf, failed, unchangeable.spot(r, r.applyOne)); err != nil {
		return nil, err
	}
	if err := r.recreate(ctx, unchangeable.objects, failed); err != nil {
		return nil, err
	}
	refs := make([]inventory.Ref, 0, len(prepared))
	for _, o := range prepared {
		refs = append(refs, inventory.RefOf(o))
	}
	return refs, nil
}

// awaitHealthy waits until all objects of a stage are healthy, if something comes after it that needs that.
func (r *run) awaitHealthy(ctx context.Context, s order.Stage, refs []inventory.Ref) error {
	if !s.Awaited || !r.news || len(refs) == 0 {
		return nil
	}
	timeout := r.service.Spec.HealthTimeoutOrDefault()
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	var lagging []report.ObjectStatus
	err := r.await(waiting, func() bool {
		lagging = r.unit.objects.Unhealthy(refs)
		return len(lagging) == 0 || slices.ContainsFunc(lagging, hopeless)
	})
	switch {
	case errors.Is(err, errImpatient):
		return unhealthy(fmt.Sprintf("%s is not healthy within %v", s, timeout), lagging,
			health.Unknown, health.Progressing, health.Terminating)
	case err != nil:
		return err
	case len(lagging) > 0:
		return unhealthy(fmt.Sprintf("%s is not healthy", s), lagging, health.Degraded, health.Missing)
	}
	return nil
}

// hopeless tells objects that will not become healthy by waiting.
func hopeless(o report.ObjectStatus) bool {
	return o.Health.State == health.Degraded || o.Health.State == health.Missing
}

// retryOnHealthy brings the next try forward when an object became healthy that a run had waited for
// in vain. u.mu is held.
func (u *unit) retryOnHealthy(v health.Verdict) {
	if u.problem != nil && u.problem.Reason == reason.HealthTimeout && u.dirty && v.State == health.Healthy {
		u.retryAt = time.Time{}
	}
}
