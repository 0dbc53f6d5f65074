// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Hooks run once for each change of a service's inputs. Two marks make that outlast a restart at any point: the annotation of the
// run on the hook itself, which is there as soon as the hook is, and the inventory, which holds what became of the hooks of the
// run after they are deleted. Only a hook that ends and is deleted by somebody else, all while no agent runs, may run twice.
const (
	// HookLabel marks hooks beside ServiceLabel; its value is the phase.
	HookLabel = "leat.dev/hook"
	// hookRun is the annotation that names the run that a hook was made by.
	hookRun = "leat.dev/hook-run"
)

// hook is one hook in one run.
type hook struct {
	order.Member

	phase    order.Phase
	object   *unstructured.Unstructured // complete, and marked
	ref      inventory.Ref
	uid      string // of what is in the cluster
	launched bool   // this run waits for it
}

// id names the hook in the inventory, and for people.
func (h *hook) id() string {
	return fmt.Sprintf("%s hook %s", h.phase, h.ref.Key)
}

// openHooks begins the run of the hooks, unless it is under way. It stores everything that they may be needed for.
func (r *run) openHooks(ctx context.Context) error {
	farewell, err := r.farewells(ctx)
	if err != nil {
		return err
	}
	r.record.Hooks.Farewell = farewell
	hooked := slices.ContainsFunc(r.schedule.Stages, func(s order.Stage) bool {
		return slices.ContainsFunc(s.Members, func(m order.Member) bool { return m.Hook })
	})
	none := !hooked && r.record.Hooks.Change == ""
	if none || !r.news || !r.beginHooks(changeOf(r.service.Inputs())) || !hooked {
		return nil
	}
	r.record.Touched = true
	return r.save(ctx)
}

// beginHooks notes that hooks are run for a change. It reports false where they are already.
func (r *run) beginHooks(change string) bool {
	if r.record.Hooks.Change == change {
		return false
	}
	r.record.Hooks = r.record.Hooks.Begin(change, r.newRun())
	return true
}

// newRun names a run of hooks as no other of the service.
func (r *run) newRun() string {
	return sum(r.unit.name, r.service.UID, time.Now().Format(time.RFC3339Nano))
}

func changeOf(in inventory.Applied) string {
	return sum(append([]string{in.SpecDigest, in.ConfigDigest, in.SyncRequest}, in.Digests...)...)
}

// sum is a short name for texts.
func sum(texts ...string) string {
	const length = 5 // bytes: what a name has room for
	all := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(all[:length])
}

// compensate runs the SyncFail hooks where a run failed for what it was to apply. What becomes of them does not change the failure.
func (r *run) compensate(ctx context.Context, err error) {
	if ctx.Err() != nil || slices.Contains([]reason.Reason{reason.ClusterUnreachable, reason.Internal, reason.ManifestInvalid}, reason.ProblemOf(err).Reason) {
		return
	}
	if err := r.phase(ctx, order.SyncFail); err != nil && ctx.Err() == nil {
		r.engine.logProblem(ctx, "hook for a failed sync did not run well", r.service.Name, err)
	}
}

// launchAll makes those of the members that are hooks and have not run yet, without waiting for their end.
func (r *run) launchAll(ctx context.Context, phase order.Phase, members []order.Member, failed *failedObjects) ([]*hook, error) {
	if !r.news {
		return nil, nil
	}
	hooks, err := r.prepareHooks(ctx, phase, members, failed)
	if err != nil || len(hooks) == 0 {
		return nil, err
	}
	if err := r.enlistHooks(ctx, hooks); err != nil {
		return nil, err
	}
	r.tidying = append(r.tidying, hooks...)
	for _, h := range hooks {
		r.hooked.Put(inventory.Object{Ref: h.ref})
		if _, ended := r.record.Hooks.Ended[h.id()]; ended {
			continue
		}
		err := r.launch(ctx, h)
		if fatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failed.add(h.ref, err)
		}
	}
	return hooks, nil
}

// prepareHooks completes the hooks among the members, and names and marks them.
func (r *run) prepareHooks(ctx context.Context, phase order.Phase, members []order.Member, failed *failedObjects) (hooks []*hook, err error) {
	for _, m := range members {
		if !m.Hook {
			continue
		}
		h, err := r.prepareHook(ctx, phase, m)
		if fatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failed.add(inventory.RefOf(m.Object), err)
			continue
		}
		if _, twice := r.desired.Get(h.ref.Key); twice || slices.ContainsFunc(hooks, func(other *hook) bool { return other.ref.Key == h.ref.Key }) {
			return nil, reason.Errorf(reason.ManifestInvalid, "%s stands in the manifests twice; remove one of them", h.ref.Key)
		}
		hooks = append(hooks, h)
	}
	return hooks, nil
}

func (r *run) prepareHook(ctx context.Context, phase order.Phase, m order.Member) (*hook, error) {
	o, err := complete(ctx, r.cluster, r.service, m.Object)
	if err != nil {
		return nil, err
	}
	if o.GetName() == "" {
		o.SetName(nameFor(o.GetGenerateName(), sum(r.record.Hooks.Run, string(phase), fmt.Sprint(m.Ordinal))))
		o.SetGenerateName("")
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	labels[HookLabel] = string(phase)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hookRun] = r.record.Hooks.Run
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return &hook{Member: m, phase: phase, object: o, ref: inventory.RefOf(o)}, nil
}

// nameFor makes a name of a prefix, as the API server would, but the same one each time in one run.
func nameFor(prefix, suffix string) string {
	const longest = 63
	return prefix[:min(len(prefix), longest-len(suffix))] + suffix
}

// enlistHooks notes hooks before they are made. One that was an object of the service until now is no longer.
func (r *run) enlistHooks(ctx context.Context, hooks []*hook) error {
	changed := false
	for _, h := range hooks {
		known, ok := r.record.Hooks.Get(h.ref.Key)
		h.uid = known.UID
		if _, ended := r.record.Hooks.Ended[h.id()]; !ok && !ended {
			r.record.Hooks = r.record.Hooks.Put(inventory.Object{Ref: h.ref})
			changed = true
		}
		if object, ok := r.record.Objects.Get(h.ref.Key); ok {
			h.uid = object.UID
			r.record.Hooks = r.record.Hooks.Put(object)
			r.record.Objects.Remove(h.ref.Key)
			r.unit.objects.Remove(h.ref.Key)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return r.saveHooks(ctx)
}

// launch makes a hook, unless this very run has made it before it was interrupted.
func (r *run) launch(ctx context.Context, h *hook) error {
	if owner := r.engine.ownership.Claim(h.ref.Key, r.service.Name); owner != r.service.Name {
		return ownership.ClaimedBy(owner)
	}
	live, err := r.cluster.Get(ctx, h.ref)
	if err != nil && !errors.Is(err, k8s.ErrNotFound) {
		return err
	}
	h.launched = true
	if err == nil && r.made(h, live) {
		r.know(h, live)
		return nil
	}
	if err == nil {
		if err := r.makeWay(ctx, h, live); err != nil {
			h.launched = false
			return err
		}
	}
	live, err = r.cluster.Apply(ctx, h.object, k8s.ApplyOptions{Force: true, Confidential: r.result.IsConfidential(h.object)})
	if err != nil {
		h.launched = false
		return err
	}
	r.know(h, live)
	r.tell(h.ref, fmt.Sprintf("%s hook runs", h.phase))
	return nil
}

// know notes what the cluster calls a hook.
func (r *run) know(h *hook, live *unstructured.Unstructured) {
	h.uid = string(live.GetUID())
	r.record.Hooks = r.record.Hooks.Put(inventory.Object{Ref: h.ref, UID: h.uid})
}

// made tells whether live is what this run has made of the hook.
func (r *run) made(h *hook, live *unstructured.Unstructured) bool {
	return live.GetDeletionTimestamp() == nil && live.GetLabels()[k8s.ServiceLabel] == r.service.Name &&
		live.GetLabels()[HookLabel] == string(h.phase) && live.GetAnnotations()[hookRun] == r.record.Hooks.Run
}

// makeWay deals with an object that stands where a hook is to be made: it is deleted, left to be applied over, or in the way.
func (r *run) makeWay(ctx context.Context, h *hook, live *unstructured.Unstructured) error {
	owner := live.GetLabels()[k8s.ServiceLabel]
	state := r.engine.outcomeOf(live)
	switch {
	case owner != "" && owner != r.service.Name:
		r.engine.ownership.Drop(h.ref.Key, r.service.Name)
		return ownership.ClaimedBy(owner)
	case owner == "" && runsOnce(h.ref.Key):
		return reason.Errorf(reason.ApplyRejected, "exists, and no sync of this service has made it; delete it, and the hook will run")
	case owner == "":
		return nil
	case h.Deletion.Has(order.BeforeCreation), !state.ended, live.GetDeletionTimestamp() != nil,
		state.failed && h.Deletion.Has(order.OnFailure), !state.failed && h.Deletion.Has(order.OnSuccess):
		return r.vanish(ctx, []inventory.Object{{Ref: h.ref, UID: string(live.GetUID())}}, syncpolicy.DeleteForeground)
	case runsOnce(h.ref.Key):
		return reason.Errorf(reason.ApplyRejected, "is still there from an earlier sync, and its delete policy keeps it; delete it, or add BeforeHookCreation to the policy")
	}
	return nil
}

// tell tells those who watch the service of one object.
func (r *run) tell(ref inventory.Ref, message string) {
	r.unit.mu.Lock()
	phase := r.unit.status.Phase
	r.unit.mu.Unlock()
	r.engine.events.publish(report.Event{Time: time.Now(), Service: r.service.Name, Phase: phase, Object: &ref, Message: message})
}
