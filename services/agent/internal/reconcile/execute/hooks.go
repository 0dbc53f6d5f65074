// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
)

// Hooks run once for each change of a service's inputs. Two marks survive a restart at any point:
// the run's annotation on the hook itself, which exists as soon as the hook does, and the
// inventory, which keeps the results of the run's hooks after they are deleted. Only a hook that
// ends and is deleted by another client, both while no agent runs, may run twice.
const (
	// HookLabel marks hooks beside k8s.ServiceLabel. Its value is the phase.
	HookLabel = "leat.dev/hook"
	// HookRunAnnotation names the run that created a hook.
	HookRunAnnotation = "leat.dev/hook-run"
)

// A hook goes through these states in a run. The stored data of each state makes the next process
// continue there:
//
//   - prepared: it has the marks, and a name that is the same in the whole run. Nothing is stored.
//   - listed: the inventory lists the key, so that the hook is found and deleted later.
//   - running: it is in the cluster, with the run's annotation. A later process finds it by that.
//   - ended: the inventory has the result. Only now may the hook be deleted, if its policy demands it.
//   - discarded: it is deleted, and its key is not listed any more. The result is kept.

// hook is one hook in one run.
type hook struct {
	order.Member

	phase     order.Phase
	object    *unstructured.Unstructured // complete and marked
	ref       inventory.Ref
	uid       string // of the object in the cluster
	isRunning bool   // this run waits for its end
}

// id identifies the hook in the inventory and in messages.
func (h *hook) id() string {
	return fmt.Sprintf("%s hook %s", h.phase, h.ref.Key)
}

// hookRunner runs the hooks of a service. Only the goroutine of the run uses it.
type hookRunner struct {
	r         *run
	reached   *reached
	isRemoval bool
	phase     []*hook // of the current phase, to be deleted at its end if their policy demands it
}

// begin begins the run of the hooks for a change, unless it has begun already, and stores their
// common data.
func (h *hookRunner) begin(ctx context.Context) error {
	r := h.r
	manifests, err := deleteHookManifests(ctx, r)
	if err != nil {
		return err
	}
	r.record.Hooks.DeleteHooks = manifests
	hasHooks := slices.ContainsFunc(r.schedule.Stages, func(s order.Stage) bool {
		return slices.ContainsFunc(s.Members, func(m order.Member) bool { return m.Hook })
	})
	neverHad := !hasHooks && r.record.Hooks.Change == ""
	if neverHad || !r.IsChange || !h.beginRun(changeID(r.Service.Inputs())) || !hasHooks {
		return nil
	}
	r.record.Touched = true
	return r.save(ctx)
}

// beginRun records that hooks run for a change. It reports false if they already do.
func (h *hookRunner) beginRun(change string) bool {
	record := &h.r.record
	if record.Hooks.Change == change {
		return false
	}
	record.Hooks = record.Hooks.Begin(change, h.newRunID())
	return true
}

// newRunID returns a name that no other run of the service's hooks has.
func (h *hookRunner) newRunID() string {
	return shortHash(h.r.Name, h.r.Service.UID, time.Now().Format(time.RFC3339Nano))
}

// launch creates the hooks among the members that have not run yet. It does not wait for their end.
func (h *hookRunner) launch(ctx context.Context, phase order.Phase, members []order.Member, failures *Failures) ([]*hook, error) {
	if !h.r.IsChange {
		return nil, nil
	}
	hooks, err := h.prepare(ctx, phase, members, failures)
	if err != nil || len(hooks) == 0 {
		return nil, err
	}
	if err := h.list(ctx, hooks); err != nil {
		return nil, err
	}
	h.phase = append(h.phase, hooks...)
	for _, one := range hooks {
		h.reached.hooks.Put(inventory.Object{Ref: one.ref})
		if _, hasEnded := h.r.record.Hooks.Ended[one.id()]; hasEnded {
			continue
		}
		err := h.launchOne(ctx, one)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failures.add(one.ref, err)
		}
	}
	return hooks, nil
}

// prepare completes, names and marks the hooks among the members.
func (h *hookRunner) prepare(ctx context.Context, phase order.Phase, members []order.Member, failures *Failures) (hooks []*hook, err error) {
	for _, m := range members {
		if !m.Hook {
			continue
		}
		one, err := h.prepareOne(ctx, phase, m)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failures.add(inventory.RefOf(m.Object), err)
			continue
		}
		if h.isDesired(one.ref.Key) || slices.ContainsFunc(hooks, func(other *hook) bool { return other.ref.Key == one.ref.Key }) {
			return nil, twice(one.ref.Key)
		}
		hooks = append(hooks, one)
	}
	return hooks, nil
}

// isDesired reports whether an object of the service has that key.
func (h *hookRunner) isDesired(k inventory.Key) bool {
	_, isDesired := h.reached.desired.Get(k)
	return isDesired
}

func (h *hookRunner) prepareOne(ctx context.Context, phase order.Phase, m order.Member) (*hook, error) {
	run := h.r.record.Hooks.Run
	o, err := complete(ctx, h.r.cluster, h.r.Service, m.Object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" {
		o.SetName(generatedName(o.GetGenerateName(), shortHash(run, string(phase), fmt.Sprint(m.Ordinal))))
		o.SetGenerateName("")
	}
	mark(o, phase, run)
	return &hook{Member: m, phase: phase, object: o, ref: inventory.RefOf(o)}, nil
}

// mark marks an object as a hook that a run has created in a phase.
func mark(o *unstructured.Unstructured, phase order.Phase, run string) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[HookLabel], annotations[HookRunAnnotation] = string(phase), run
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// list records hooks before they are created. A hook that was an object of the service until now
// stops being one.
func (h *hookRunner) list(ctx context.Context, hooks []*hook) error {
	record, isNews := &h.r.record, false
	for _, one := range hooks {
		known, isListed := record.Hooks.Get(one.ref.Key)
		one.uid = known.UID
		if _, hasEnded := record.Hooks.Ended[one.id()]; !isListed && !hasEnded {
			record.Hooks = record.Hooks.Put(inventory.Object{Ref: one.ref})
			isNews = true
		}
		if object, wasObject := record.Objects.Get(one.ref.Key); wasObject {
			one.uid = object.UID
			record.Hooks = record.Hooks.Put(object)
			record.Objects.Remove(one.ref.Key)
			h.r.Objects.Remove(one.ref.Key)
			isNews = true
		}
	}
	if !isNews {
		return nil
	}
	return h.save(ctx)
}

// save stores the record. In a removal it keeps the last spec's settings for the removal.
func (h *hookRunner) save(ctx context.Context) error {
	if h.isRemoval {
		return h.r.store(ctx)
	}
	return h.r.save(ctx)
}

// launchOne creates a hook, unless this run created it before an interruption.
func (h *hookRunner) launchOne(ctx context.Context, one *hook) error {
	r := h.r
	if owner := r.x.params.Ownership.Claim(one.ref.Key, r.Service.Name); owner != r.Service.Name {
		return ownership.ClaimedBy(owner)
	}
	live, err := r.cluster.Get(ctx, one.ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	one.isRunning = true
	if err == nil && h.isFromThisRun(one, live) {
		h.recordUID(one, live)
		return nil
	}
	if err == nil {
		if err := h.makeWay(ctx, one, live); err != nil {
			one.isRunning = false
			return err
		}
	}
	live, err = r.cluster.Apply(ctx, one.object, k8s.ApplyOptions{Force: true, Confidential: r.manifests.IsConfidential(one.object)})
	if err != nil {
		one.isRunning = false
		return err
	}
	h.recordUID(one, live)
	r.Progress.Announce(one.ref, fmt.Sprintf("%s hook runs", one.phase))
	return nil
}

// recordUID records the UID of a hook in the cluster.
func (h *hookRunner) recordUID(one *hook, live *unstructured.Unstructured) {
	one.uid = string(live.GetUID())
	h.r.record.Hooks = h.r.record.Hooks.Put(inventory.Object{Ref: one.ref, UID: one.uid})
}

// isFromThisRun reports whether this run has created live as the hook.
func (h *hookRunner) isFromThisRun(one *hook, live *unstructured.Unstructured) bool {
	return live.GetDeletionTimestamp() == nil && k8s.ServiceOf(live) == h.r.Service.Name &&
		live.GetLabels()[HookLabel] == string(one.phase) && live.GetAnnotations()[HookRunAnnotation] == h.r.record.Hooks.Run
}

// makeWay handles an existing object with the hook's name: it is deleted, left to be applied over,
// or an error.
func (h *hookRunner) makeWay(ctx context.Context, one *hook, live *unstructured.Unstructured) error {
	r, owner, state := h.r, k8s.ServiceOf(live), endOf(live, h.r.x.params.Judge)
	switch {
	case owner != "" && owner != r.Service.Name:
		r.x.params.Ownership.Drop(one.ref.Key, r.Service.Name)
		return ownership.ClaimedBy(owner)
	case owner == "" && RunsOnce(one.ref.Key):
		return reason.Errorf(reason.ApplyRejected, "exists, and no sync of this service has made it; delete it, and the hook will run")
	case owner == "":
		return nil
	case one.Deletion.Has(order.BeforeCreation), !state.hasEnded, live.GetDeletionTimestamp() != nil,
		state.hasFailed && one.Deletion.Has(order.OnFailure), !state.hasFailed && one.Deletion.Has(order.OnSuccess):
		return r.deleteAndWait(ctx, []inventory.Object{{Ref: one.ref, UID: string(live.GetUID())}}, syncpolicy.DeleteForeground)
	case RunsOnce(one.ref.Key):
		return reason.Errorf(reason.ApplyRejected, "is still there from an earlier sync, and its delete policy keeps it; delete it, or add BeforeHookCreation to the policy")
	}
	return nil
}
