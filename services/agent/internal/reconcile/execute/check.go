// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// hookPlace is a hook in one phase. The same object may be a hook of several.
type hookPlace struct {
	key   inventory.Key
	phase order.Phase
}

// keyCheck finds objects that the manifests of a run contain twice.
type keyCheck struct {
	cluster   k8s.Reader
	namespace string // of objects that name none
	origins   map[*unstructured.Unstructured]string
}

// check fails if the manifests contain an object twice, in any waves and sources. It runs
// before the first change. A kind that does not exist yet is assumed to be namespaced. If it turns
// out to be cluster-scoped, prepare detects the remaining duplicates.
func (c keyCheck) check(ctx context.Context, schedule order.Schedule) error {
	objects, hooks := map[inventory.Key]*unstructured.Unstructured{}, map[inventory.Key]*unstructured.Unstructured{}
	places := map[hookPlace]*unstructured.Unstructured{}
	// Hooks of a removal run when the objects are gone.
	for _, stage := range schedule.Of(order.Foundation, order.PreSync, order.Sync, order.PostSync, order.SyncFail) {
		for _, m := range stage.Members {
			if m.Object.GetName() == "" {
				continue // a hook whose name comes from its run
			}
			key, err := c.keyOf(ctx, m.Object)
			if err != nil {
				return err
			}
			if !m.Hook {
				if err := c.checkPlace(key, m.Object, objects[key], hooks[key]); err != nil {
					return err
				}
				objects[key] = m.Object
				continue
			}
			place := hookPlace{key, stage.Phase}
			if err := c.checkPlace(key, m.Object, objects[key], places[place]); err != nil {
				return err
			}
			hooks[key], places[place] = m.Object, m.Object
		}
	}
	return nil
}

// keyOf returns the key under which an object will be applied.
func (c keyCheck) keyOf(ctx context.Context, o *unstructured.Unstructured) (inventory.Key, error) {
	key := inventory.RefOf(o).Key
	isNamespaced, err := c.cluster.Namespaced(ctx, o.GroupVersionKind())
	switch {
	case err != nil && !k8s.IsUnknownKind(err):
		return key, err
	case err == nil && !isNamespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = c.namespace
	}
	return key, nil
}

// checkPlace fails if another object already has the key.
func (c keyCheck) checkPlace(k inventory.Key, o *unstructured.Unstructured, others ...*unstructured.Unstructured) error {
	for _, other := range others {
		if other != nil && other != o {
			return fmt.Errorf("%w (%s; %s)", twice(k), c.origins[other], c.origins[o])
		}
	}
	return nil
}

// preparation returns the steps that detect invalid input before the first change.
func preparation(r *run) []step {
	return []step{
		{"validate", r.validate},
		{"render", r.render},
		{"check keys", func(ctx context.Context) error {
			return keyCheck{r.cluster, r.Service.Spec.NamespaceOrDefault(), r.manifests.Origins}.check(ctx, r.schedule)
		}},
		{"check limits", func(ctx context.Context) error { return checkLimits(ctx, r) }},
	}
}

// twice returns the problem of two manifests with the same key.
func twice(k inventory.Key) *reason.Problem {
	return reason.Errorf(reason.ManifestInvalid, "%s stands in the manifests twice; remove one of them", k)
}
