// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// parallel is how many requests of one service are under way at once.
const parallel = 8

// The waves in which objects are applied: each may need the ones before.
const (
	foundation = iota // namespaces and definitions
	content
	admission // webhooks and policies, which could refuse what comes with them
	waves
)

func waveOf(o *unstructured.Unstructured) int {
	kind := o.GroupVersionKind().GroupKind()
	switch {
	case kind.Group == "" && kind.Kind == "Namespace", isDefinition(o):
		return foundation
	case kind.Group == "admissionregistration.k8s.io":
		return admission
	default:
		return content
	}
}

func isDefinition(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind().String() == "CustomResourceDefinition.apiextensions.k8s.io"
}

// apply applies all objects, wave by wave. Inside a wave every object is tried; a wave with failures is the last.
func (r *run) apply(ctx context.Context) error {
	for wave := range waves {
		members := slices.DeleteFunc(slices.Clone(r.result.objects), func(o *unstructured.Unstructured) bool { return waveOf(o) != wave })
		if len(members) == 0 {
			continue
		}
		if err := r.applyWave(ctx, members); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) applyWave(ctx context.Context, members []*unstructured.Unstructured) error {
	failed := &failedObjects{verb: "apply"}
	prepared, err := r.prepare(ctx, members, failed)
	if err != nil {
		return err
	}
	if prepared, err = r.claim(ctx, prepared, failed); err != nil {
		return err
	}
	// The inventory grows before the cluster does, so that a crash in between leaves nothing behind that nobody knows of.
	if err := r.enlist(ctx, prepared); err != nil {
		return err
	}
	if err := each(ctx, prepared, inventory.RefOf, failed, r.applyOne); err != nil {
		return err
	}
	return failed.orNil()
}

// prepare completes objects with namespace and label. Objects of a kind that the cluster does not know are failures.
func (r *run) prepare(
	ctx context.Context, members []*unstructured.Unstructured, failed *failedObjects,
) ([]*unstructured.Unstructured, error) {
	var prepared []*unstructured.Unstructured
	for _, o := range members {
		complete, err := complete(ctx, r.engine.params.Cluster, r.service, o)
		if fatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failed.add(inventory.RefOf(o), err)
			continue
		}
		ref := inventory.RefOf(complete)
		if _, twice := r.desired.Get(ref.Key); twice {
			return nil, problemf(ManifestInvalid, "%s stands in the manifests twice; remove one of them", ref.Key)
		}
		r.desired.Put(inventory.Object{Ref: ref})
		prepared = append(prepared, complete)
	}
	return prepared, nil
}

// complete returns a copy of o with the namespace it belongs to, and the service's label.
func complete(ctx context.Context, cluster Cluster, s Service, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	namespaced, err := cluster.Namespaced(ctx, o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	o = o.DeepCopy()
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(s.Spec.namespace())
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ServiceLabel] = s.Name
	o.SetLabels(labels)
	unstructured.RemoveNestedField(o.Object, "status")                    // the cluster's to write
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields") // refused in an apply
	return o, nil
}

// claim drops the objects that belong to another service.
func (r *run) claim(
	ctx context.Context, prepared []*unstructured.Unstructured, failed *failedObjects,
) ([]*unstructured.Unstructured, error) {
	var mu sync.Mutex
	refused := map[inventory.Key]bool{}
	err := each(ctx, prepared, inventory.RefOf, failed, func(ctx context.Context, o *unstructured.Unstructured) error {
		err := r.claimOne(ctx, inventory.RefOf(o))
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			refused[inventory.RefOf(o).Key] = true
		}
		return err
	})
	return slices.DeleteFunc(prepared, func(o *unstructured.Unstructured) bool { return refused[inventory.RefOf(o).Key] }), err
}

func (r *run) claimOne(ctx context.Context, ref inventory.Ref) error {
	if owner := r.engine.claims.take(ref.Key, r.service.Name); owner != r.service.Name {
		return claimedBy(owner)
	}
	if known, ok := r.record.Objects.Get(ref.Key); ok && known.UID != "" {
		return nil
	}
	live, err := r.engine.params.Cluster.Get(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		if owner := live.GetLabels()[ServiceLabel]; owner != "" && owner != r.service.Name {
			err = claimedBy(owner)
		}
	}
	if err != nil {
		r.engine.claims.drop(ref.Key, r.service.Name)
	}
	return err
}

func claimedBy(owner string) error {
	return problemf(ObjectClaimed, "belongs to service %q already; remove it from one of the two", owner)
}

// enlist adds the objects to the inventory, and notes that the cluster is about to change. A refresh changes neither.
func (r *run) enlist(ctx context.Context, prepared []*unstructured.Unstructured) error {
	grown := !r.record.Touched && !sameInputs(r.service.inputs(), r.record.Applied)
	r.record.Touched = r.record.Touched || grown
	for _, o := range prepared {
		ref := inventory.RefOf(o)
		if _, known := r.record.Objects.Get(ref.Key); !known {
			r.record.Objects.Put(inventory.Object{Ref: ref})
			grown = true
		}
	}
	if !grown {
		return nil
	}
	return r.save(ctx)
}

func (r *run) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	live, err := r.engine.params.Cluster.Apply(ctx, o, ApplyOptions{
		Force: r.service.Spec.ForceConflicts, Confidential: r.result.confidential(o),
	})
	if err != nil {
		return err
	}
	object := inventory.Object{Ref: inventory.RefOf(o), UID: string(live.GetUID())}
	r.unit.applied(r, Observation{
		Service: r.service.Name, Object: object, ResourceVersion: live.GetResourceVersion(), Health: health.Of(live),
	})
	if isDefinition(o) {
		return r.engine.params.Cluster.AwaitDefined(ctx, live)
	}
	return nil
}

// applied notes the cluster's answer to an apply. Unlike other parts of the run it is called concurrently.
func (u *unit) applied(r *run, o Observation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.record.Objects.Put(o.Object)
	u.record.Objects.Put(o.Object)
	u.observed[o.Object.Key] = o
}

// each calls do for every item, a few at a time. What do returns is the item's failure, and does not keep the others from
// being tried; only a failure that all would share (see fatal) ends the work and is returned.
func each[T any](
	ctx context.Context, items []T, ref func(T) inventory.Ref, failed *failedObjects, do func(context.Context, T) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	results := make([]error, len(items))
	for i, item := range items {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			results[i] = do(ctx, item)
			if fatal(ctx, results[i]) {
				return results[i]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range results {
		if err != nil {
			failed.add(ref(items[i]), err)
		}
	}
	return nil
}

// fatal tells errors that are not about one object: the run was ended, or the cluster does not answer.
func fatal(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	problem, ok := errors.AsType[*Problem](err)
	return !ok || problem.Reason == ClusterUnreachable || problem.Reason == Internal
}

// describe names objects for a message.
func describe(objects []inventory.Object) string {
	const enough = 3
	text := ""
	for i, o := range objects {
		if i == enough {
			return fmt.Sprintf("%s and %d more", text, len(objects)-enough)
		}
		if i > 0 {
			text += ", "
		}
		text += o.String()
	}
	return text
}
