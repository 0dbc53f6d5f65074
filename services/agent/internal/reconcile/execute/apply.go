// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
)

// applier applies the objects of a service, wave by wave. The goroutine of the run calls apply. Its
// fields do not change while it works on several objects.
//
// Each wave goes through five steps, each of which needs the previous one for all objects of the
// wave:
//
//   - prepare completes the manifests, and detects kinds that the cluster does not serve. Objects
//     that are only created where they are missing go no further.
//   - claim ensures that the objects belong to this service, or are free.
//   - list stores them in the inventory, so that a crash leaves no unlisted object behind.
//   - apply sends the differing ones.
//   - recreate deletes and creates again the objects whose changed fields are immutable, if that is
//     allowed.
//
// An object that fails in one step is excluded from the next ones. The other objects continue, so
// that a person sees all failures at once.
type applier struct {
	r       *run
	claimer *claimer
	drift   drift
	reached *reached
	wave    int // of the current objects

	namespace    sync.Once
	namespaceErr error // why the service's namespace could not be created
}

func newApplier(r *run, s *reached) *applier {
	return &applier{r: r, claimer: newClaimer(r), drift: drift{r}, reached: s}
}

// apply applies the objects of a wave, and returns the ones that it tried. Failures of single
// objects are added to failures; a returned error ends the run.
func (a *applier) apply(ctx context.Context, wave int, objects []*unstructured.Unstructured, failures *Failures) ([]inventory.Ref, error) {
	a.wave = wave
	prepared, err := a.prepare(ctx, objects, failures)
	if err != nil {
		return nil, err
	}
	if prepared, err = a.createMissing(ctx, prepared, failures); err != nil {
		return nil, err
	}
	if prepared, err = a.claim(ctx, prepared, failures); err != nil {
		return nil, err
	}
	// A crash between these two steps leaves no unlisted object behind.
	if err := a.list(ctx, prepared); err != nil {
		return nil, err
	}
	immutable := &immutableObjects{r: a.r}
	err = each(ctx, prepared, inventory.RefOf, failures, func(ctx context.Context, o *unstructured.Unstructured) error {
		return immutable.collect(o, a.applyOne(ctx, o))
	})
	if err != nil {
		return nil, err
	}
	gone, err := immutable.delete(ctx, failures)
	if err != nil {
		return nil, err
	}
	err = each(ctx, gone, inventory.RefOf, failures, func(ctx context.Context, o *unstructured.Unstructured) error {
		return a.write(ctx, o, a.r.Rules.Desired(o), false) // a watch may not have shown the deletion yet
	})
	if err != nil {
		return nil, err
	}
	refs := make([]inventory.Ref, 0, len(prepared))
	for _, o := range prepared {
		refs = append(refs, inventory.RefOf(o))
	}
	return refs, nil
}

// prepare completes objects with namespace and label. Objects of an unknown kind are failures.
func (a *applier) prepare(
	ctx context.Context, objects []*unstructured.Unstructured, failures *Failures,
) ([]*unstructured.Unstructured, error) {
	var prepared []*unstructured.Unstructured
	for _, o := range objects {
		full, err := complete(ctx, a.r.cluster, a.r.Service, o)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failures.add(inventory.RefOf(o), err)
			continue
		}
		entry := a.entry(full)
		if a.reached.has(entry.Key) {
			return nil, twice(entry.Key)
		}
		if order.IsCreatedOnly(full) {
			a.reached.created.Put(entry)
		} else {
			a.reached.desired.Put(entry)
		}
		prepared = append(prepared, full)
	}
	return prepared, nil
}

// createMissing creates those objects that are only created, where they are missing, and returns the
// others. They never belong to the service, so they carry no label of it.
func (a *applier) createMissing(
	ctx context.Context, prepared []*unstructured.Unstructured, failures *Failures,
) (others []*unstructured.Unstructured, err error) {
	var only []*unstructured.Unstructured
	for _, o := range prepared {
		if order.IsCreatedOnly(o) {
			only = append(only, o)
		} else {
			others = append(others, o)
		}
	}
	return others, each(ctx, only, inventory.RefOf, failures, a.createOne)
}

// createOne creates an object unless it exists. A definition can be used afterwards.
func (a *applier) createOne(ctx context.Context, o *unstructured.Unstructured) error {
	if err := a.ensureNamespaceOf(ctx, o); err != nil {
		return err
	}
	live, err := a.r.cluster.CreateMissing(ctx, withoutService(o), k8s.ApplyOptions{Confidential: a.r.manifests.IsConfidential(o)})
	if err != nil || !isDefinition(o) {
		return err
	}
	return a.r.cluster.AwaitDefined(ctx, live)
}

// withoutService returns o without the service's labels.
func withoutService(o *unstructured.Unstructured) *unstructured.Unstructured {
	bare := o.DeepCopy()
	k8s.Unmark(bare)
	if len(bare.GetLabels()) == 0 {
		unstructured.RemoveNestedField(bare.Object, "metadata", "labels")
	}
	return bare
}

// claim removes the objects that belong to another service.
func (a *applier) claim(
	ctx context.Context, prepared []*unstructured.Unstructured, failures *Failures,
) ([]*unstructured.Unstructured, error) {
	var mu sync.Mutex
	refused := map[inventory.Key]bool{}
	err := each(ctx, prepared, inventory.RefOf, failures, func(ctx context.Context, o *unstructured.Unstructured) error {
		err := a.claimer.claim(ctx, inventory.RefOf(o))
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			refused[inventory.RefOf(o).Key] = true
		}
		return err
	})
	return slices.DeleteFunc(prepared, func(o *unstructured.Unstructured) bool { return refused[inventory.RefOf(o).Key] }), err
}

// list adds the objects to the inventory, and records that the cluster is about to change. A
// refresh changes neither. If the inventory cannot be stored, the record does not list the objects
// either: other services rely on it.
func (a *applier) list(ctx context.Context, prepared []*unstructured.Unstructured) error {
	record := &a.r.record
	isNews := len(record.inherited.from) > 0 || !record.Touched && !a.r.Service.Inputs().SameInputs(record.Applied)
	before := record.Record
	record.Touched, record.Objects = record.Touched || isNews, record.Objects.Clone()
	a.markUnknown(ctx, prepared)
	for _, o := range prepared {
		a.beginOnce(o)
		isNews = record.list(a.entry(o)) || isNews
	}
	isNews = isNews || a.r.Objects.HasUnsavedOnce()
	if !isNews {
		return nil
	}
	if err := a.r.save(ctx); err != nil {
		record.Record = before
		return err
	}
	a.r.x.params.Ownership.Nudge(record.takeInherited())
	return nil
}

// markUnknown records which objects are about to get another manifest. Until the cluster has
// answered, each may be in the old or the new state, also for a later process.
func (a *applier) markUnknown(ctx context.Context, prepared []*unstructured.Unstructured) {
	for _, o := range prepared {
		if a.decide(o, a.r.Rules.Desired(o)) == observe.Install {
			a.r.Objects.SetUnknown(inventory.RefOf(o).Key)
		}
	}
	a.r.Progress.SaveFingerprints(ctx)
}

// beginOnce records the content that an object runs for, if it runs once.
func (a *applier) beginOnce(o *unstructured.Unstructured) {
	content := a.r.onceContent(o)
	if content == "" {
		return
	}
	key := inventory.RefOf(o).Key
	a.r.Objects.BeginOnce(key, content, a.r.Objects.IsRepair(key, a.r.Rules.Desired(o)))
}

// onceContent identifies the manifest of an object that runs once, or returns "" for any other
// object. The same manifest has the same content in all releases. For an object that contains
// secrets of the configuration it identifies all inputs of the service instead. Many people can
// read the inventory, and could guess a short secret from a digest.
func (r *run) onceContent(o *unstructured.Unstructured) string {
	if !health.VanishesWhenDone(o.GroupVersionKind().GroupKind()) {
		return ""
	}
	if r.manifests.IsConfidential(o) {
		inputs := r.Service.Inputs()
		return shortHash(append([]string{inputs.ConfigDigest}, inputs.Digests...)...)
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return "" // a value that was decoded from JSON can be encoded
	}
	return digest.FromBytes(text).Hex()
}

// entry returns how the inventory lists an object of the current wave.
func (a *applier) entry(o *unstructured.Unstructured) inventory.Object {
	return inventory.Object{Ref: inventory.RefOf(o), Wave: a.wave, Wish: inventory.WishOf(o.GetAnnotations())}
}

// decide compares a manifest with the known state of its object. It chooses between four actions:
// keep the object, install the manifest, repair drift, or only explain the drift, if the policy
// demands that.
func (a *applier) decide(o *unstructured.Unstructured, manifest fingerprint.Sum) observe.Verdict {
	key := inventory.RefOf(o).Key
	known, isListed := a.r.record.get(key)
	return a.r.Objects.Decide(key, manifest, a.r.onceContent(o), isListed && known.UID != "", observe.Mode{
		Drift: a.r.Service.Spec.Policy.Drift, CorrectsAll: a.r.IsRequested || a.r.IsChange,
	})
}

// applyOne applies an object if Leat's part of it differs from the manifest. An object without a
// difference costs no request.
func (a *applier) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	sum := a.r.Rules.Desired(o)
	what := a.decide(o, sum)
	switch what {
	case observe.Keep:
		a.r.kept.Add(1)
		return nil
	case observe.Explain:
		return a.drift.explain(ctx, o)
	case observe.Install, observe.Repair:
	}
	return a.write(ctx, o, sum, what == observe.Repair)
}

// write applies an object regardless of its known state. The answer of the cluster is recorded at
// once, before a watch reports it: a run that follows immediately must not apply the object again.
func (a *applier) write(ctx context.Context, o *unstructured.Unstructured, sum fingerprint.Sum, isRepair bool) error {
	r := a.r
	if err := a.ensureNamespaceOf(ctx, o); err != nil {
		return err
	}
	var before *unstructured.Unstructured
	if isRepair {
		before = a.drift.contestedState(ctx, o)
	}
	r.Objects.BeginApply(inventory.RefOf(o).Key, sum)
	live, err := r.submitter().Apply(ctx, o, a.origin(o, isRepair))
	if err != nil {
		return err
	}
	object := a.entry(o)
	object.UID = string(live.GetUID())
	r.applied.Add(1)
	r.Objects.EndApply(r.record.setApplied(object), sum, observe.Observation{
		Service: r.Name, Object: object, ResourceVersion: live.GetResourceVersion(), Health: r.x.params.Judge(live),
		Fingerprint: r.Rules.Live(live), Terminating: live.GetDeletionTimestamp() != nil,
	})
	if isRepair {
		a.drift.announceCorrection(ctx, o, before, live)
	}
	if isDefinition(o) {
		return r.cluster.AwaitDefined(ctx, live)
	}
	return nil
}

// origin returns the known state of an object before it is submitted.
func (a *applier) origin(o *unstructured.Unstructured, isRepair bool) submit.Origin {
	ref := inventory.RefOf(o)
	known, isListed := a.r.record.get(ref.Key)
	return submit.Origin{
		Foreign: a.claimer.takeForeign(ref.Key), IsRepair: isRepair,
		IsOtherVersion: isListed && known.UID != "" && known.Version != ref.Version,
	}
}

// createNamespace creates the service's namespace if the run brings a change. Any other run creates
// it with its first object.
func (a *applier) createNamespace(ctx context.Context) error {
	if !a.r.Service.Spec.CreatesNamespace() || !a.r.IsChange {
		return nil
	}
	return a.ensureNamespace(ctx)
}

// ensureNamespaceOf creates the service's namespace if the object is in it.
func (a *applier) ensureNamespaceOf(ctx context.Context, o *unstructured.Unstructured) error {
	if a.r.Service.Spec.CreatesNamespace() && o.GetNamespace() == a.r.Service.Spec.NamespaceOrDefault() {
		return a.ensureNamespace(ctx)
	}
	return nil
}

// ensureNamespace creates the service's namespace, once a run. It may be called concurrently.
func (a *applier) ensureNamespace(ctx context.Context) error {
	a.namespace.Do(func() {
		name := a.r.Service.Spec.NamespaceOrDefault()
		if err := a.r.cluster.EnsureNamespace(ctx, name); err != nil {
			a.namespaceErr = fmt.Errorf("create namespace %s: %w", name, err)
		}
	})
	return a.namespaceErr
}

// isDefinition reports whether an object defines a kind. The kind must be usable before the next
// rank is applied.
func isDefinition(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind().String() == "CustomResourceDefinition.apiextensions.k8s.io"
}

// keepSkipped adds the objects of the manifests that are not applied now to the desired ones,
// because they must not be pruned.
func (r *run) keepSkipped(ctx context.Context, desired *inventory.Set) error {
	for _, o := range r.schedule.Skipped {
		if o.GetName() == "" {
			continue
		}
		full, err := complete(ctx, r.cluster, r.Service, o)
		if isFatal(ctx, err) {
			return err
		}
		if err == nil { // without a kind there is no object
			desired.Put(inventory.Object{Ref: inventory.RefOf(full)})
		}
	}
	return nil
}
