// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// prepare completes objects with namespace and label. Objects of a kind that the cluster does not know are failures.
func (r *run) prepare(
	ctx context.Context, members []*unstructured.Unstructured, failed *failedObjects,
) ([]*unstructured.Unstructured, error) {
	var prepared []*unstructured.Unstructured
	for _, o := range members {
		complete, err := complete(ctx, r.cluster, r.service, o)
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
			return nil, reason.Errorf(reason.ManifestInvalid, "%s stands in the manifests twice; remove one of them", ref.Key)
		}
		r.desired.Put(r.entry(complete))
		prepared = append(prepared, complete)
	}
	return prepared, nil
}

// complete returns a copy of o with the namespace it belongs to, and the service's label.
func complete(ctx context.Context, cluster k8s.API, s plan.Service, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	namespaced, err := cluster.Namespaced(ctx, o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	o = o.DeepCopy()
	switch {
	case !namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(s.Spec.NamespaceOrDefault())
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[k8s.ServiceLabel] = s.Name
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

// enlist adds the objects to the inventory, and notes that the cluster is about to change. A refresh changes neither. What could
// not be stored is not in the record either: other services rely on it.
func (r *run) enlist(ctx context.Context, prepared []*unstructured.Unstructured) error {
	grown := len(r.inherited.from) > 0 || !r.record.Touched && !r.service.Inputs().SameInputs(r.record.Applied)
	before := r.record
	r.record.Touched, r.record.Objects = r.record.Touched || grown, r.record.Objects.Clone()
	r.announce(ctx, prepared)
	for _, o := range prepared {
		grown = r.enter(r.entry(o)) || grown
	}
	if !grown {
		return nil
	}
	if err := r.save(ctx); err != nil {
		r.record = before
		return err
	}
	r.thank()
	return nil
}

// enter puts an object into the record, and tells whether the stored one has to know.
func (r *run) enter(o inventory.Object) bool {
	before, known := r.record.Objects.Get(o.Key)
	heirloom, _ := r.inherited.objects.Get(o.Key)
	o.UID = cmp.Or(heirloom.UID, before.UID)
	r.record.Objects.Put(o)
	return !known || before.Agreed || before.Counted // that was about its deletion
}

// entry is how the inventory knows an object of the stage that is being applied.
func (r *run) entry(o *unstructured.Unstructured) inventory.Object {
	return inventory.Object{Ref: inventory.RefOf(o), Wave: r.wave, Wish: inventory.WishOf(o.GetAnnotations())}
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
