// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// hookPlace is a hook in one phase. The same object may be a hook of several.
type hookPlace struct {
	key   inventory.Key
	phase order.Phase
}

// checkKeys fails if the manifests contain an object twice, in any waves and sources. It runs
// before the first change. A kind that does not exist yet is assumed to be namespaced. If it turns
// out to be cluster-scoped, prepare detects the remaining duplicates.
func (r *run) checkKeys(ctx context.Context) error {
	objects, hooks := map[inventory.Key]*unstructured.Unstructured{}, map[inventory.Key]*unstructured.Unstructured{}
	places := map[hookPlace]*unstructured.Unstructured{}
	// Hooks of a removal run when the objects are gone.
	for _, stage := range r.schedule.Of(order.Foundation, order.PreSync, order.Sync, order.PostSync, order.SyncFail) {
		for _, m := range stage.Members {
			if m.Object.GetName() == "" {
				continue // a hook whose name comes from its run
			}
			key, err := r.keyOf(ctx, m.Object)
			if err != nil {
				return err
			}
			if !m.Hook {
				if err := r.checkPlace(key, m.Object, objects[key], hooks[key]); err != nil {
					return err
				}
				objects[key] = m.Object
				continue
			}
			place := hookPlace{key, stage.Phase}
			if err := r.checkPlace(key, m.Object, objects[key], places[place]); err != nil {
				return err
			}
			hooks[key], places[place] = m.Object, m.Object
		}
	}
	return nil
}

// keyOf returns the key under which an object will be applied.
func (r *run) keyOf(ctx context.Context, o *unstructured.Unstructured) (inventory.Key, error) {
	key := inventory.RefOf(o).Key
	isNamespaced, err := r.cluster.Namespaced(ctx, o.GroupVersionKind())
	switch {
	case err != nil && !k8s.IsUnknownKind(err):
		return key, err
	case err == nil && !isNamespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = r.Service.Spec.NamespaceOrDefault()
	}
	return key, nil
}

// checkPlace fails if another object already has the key.
func (r *run) checkPlace(k inventory.Key, o *unstructured.Unstructured, others ...*unstructured.Unstructured) error {
	for _, other := range others {
		if other != nil && other != o {
			return fmt.Errorf("%w (%s; %s)", twice(k), r.manifests.Origins[other], r.manifests.Origins[o])
		}
	}
	return nil
}

// twice returns the problem of two manifests with the same key.
func twice(k inventory.Key) *reason.Problem {
	return reason.Errorf(reason.ManifestInvalid, "%s stands in the manifests twice; remove one of them", k)
}
