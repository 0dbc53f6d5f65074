// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// maxFarewell bounds the manifests that are kept for the removal of a service, in bytes: they share a ConfigMap with the inventory.
const maxFarewell = 128 << 10

// removal is the change that the hooks of a removal are run for.
const removal = "removal"

// farewells are the manifests of the hooks that run when the service goes. They are kept with the inventory, because nobody has the
// service's manifests any more by then; so they must hold no secrets.
func (r *run) farewells(ctx context.Context) (all []json.RawMessage, err error) {
	size := 0
	for _, s := range r.schedule.Of(order.PreDelete, order.PostDelete) {
		for _, m := range s.Members {
			manifest, err := r.farewell(ctx, m.Object)
			if err != nil {
				return nil, fmt.Errorf("keep %s hook %s: %w", s.Phase, inventory.RefOf(m.Object).Key, err)
			}
			all, size = append(all, manifest), size+len(manifest)
		}
	}
	if size > maxFarewell {
		return nil, reason.Errorf(reason.ManifestInvalid, "PreDelete and PostDelete hooks have %d bytes, want at most %d", size, maxFarewell)
	}
	return all, nil
}

func (r *run) farewell(ctx context.Context, o *unstructured.Unstructured) (json.RawMessage, error) {
	if o.GetKind() == "Secret" || r.result.IsConfidential(o) {
		return nil, reason.Errorf(reason.ManifestInvalid, "it holds a secret, and is kept in the cluster for everybody to read; let it refer to a Secret of the service instead")
	}
	full, err := complete(ctx, r.cluster, r.service, o)
	if rejected := new(reason.Problem); errors.As(err, &rejected) && rejected.Reason == reason.ApplyRejected {
		full, err = o, nil // of a kind that does not exist yet
	}
	if err != nil {
		return nil, err
	}
	return full.MarshalJSON()
}

func (r *run) preDelete(ctx context.Context) error {
	if !r.goes() {
		return nil
	}
	if err := r.recall(); err != nil {
		return err
	}
	retry := !r.beginHooks(removal) && r.record.Hooks.Failed()
	if retry { // nobody could change the manifests, and the service is to go
		r.record.Hooks = r.record.Hooks.Retry(r.newRun())
	}
	if err := r.saveHooks(ctx); err != nil {
		return err
	}
	return r.phase(ctx, order.PreDelete)
}

func (r *run) postDelete(ctx context.Context) error {
	if !r.goes() {
		return nil
	}
	return r.phase(ctx, order.PostDelete)
}

// goes tells whether the removal of the service takes its objects along.
func (r *run) goes() bool {
	return r.deletes() && len(r.record.Hooks.Farewell) > 0
}

// recall reads the manifests that were kept, and makes the run one that runs hooks. After a restart nothing is known of the service
// but its record.
func (r *run) recall() error {
	r.service.Name, r.news = r.unit.name, true
	var objects []*unstructured.Unstructured
	for _, manifest := range r.record.Hooks.Farewell {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(manifest); err != nil {
			return fmt.Errorf("read hook from inventory: %w", err)
		}
		objects = append(objects, o)
	}
	var err error
	r.schedule, err = order.New(objects, false)
	return err
}

// deleteHooks takes the hooks of a service that goes out of the cluster, or only Leat's label off them where its objects stay.
func (r *run) deleteHooks(ctx context.Context) error {
	for _, o := range r.record.Hooks.Objects {
		if r.deletes() {
			if err := r.discard(ctx, o); err != nil {
				return err
			}
		} else if err := r.certain(ctx, o, r.cluster.Release); err != nil {
			return fmt.Errorf("detach hook %s: %w", o.Key, err)
		}
	}
	return nil
}

// saveHooks stores the record in a sync as in a removal, where what the service's last spec said stays as it was.
func (r *run) saveHooks(ctx context.Context) error {
	if !r.leaving {
		return r.save(ctx)
	}
	return r.store(ctx)
}
