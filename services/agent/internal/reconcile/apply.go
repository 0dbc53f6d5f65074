// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

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
		_, twice := r.desired.Get(ref.Key)
		if _, hook := r.hooked.Get(ref.Key); twice || hook {
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
	if r.familiar(ref.Key) {
		return nil
	}
	live, err := r.engine.params.Cluster.Get(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = r.admit(ref.Key, live)
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
	r.announce(ctx, prepared)
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
