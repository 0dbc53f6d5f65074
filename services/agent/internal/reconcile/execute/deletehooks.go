// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// The manifests of hooks that run when a service leaves the plan are stored with its inventory,
// because the bundle may be gone by then. So they must not contain secrets.
const (
	// maxDeleteHooks bounds the kept manifests, in bytes: they share a ConfigMap with the
	// inventory.
	maxDeleteHooks = 128 << 10
	// removalID is the change for which the hooks of a removal run.
	removalID = "removal"
)

// deleteHookManifests returns the manifests to store.
func (h *hookRunner) deleteHookManifests(ctx context.Context) (all []json.RawMessage, err error) {
	size := 0
	for _, s := range h.r.schedule.Of(order.PreDelete, order.PostDelete) {
		for _, m := range s.Members {
			manifest, err := h.deleteHookManifest(ctx, m.Object)
			if err != nil {
				return nil, fmt.Errorf("keep %s hook %s: %w", s.Phase, inventory.RefOf(m.Object).Key, err)
			}
			all, size = append(all, manifest), size+len(manifest)
		}
	}
	if size > maxDeleteHooks {
		return nil, reason.Errorf(reason.ManifestInvalid, "PreDelete and PostDelete hooks have %d bytes, want at most %d", size, maxDeleteHooks)
	}
	return all, nil
}

func (h *hookRunner) deleteHookManifest(ctx context.Context, o *unstructured.Unstructured) (json.RawMessage, error) {
	if o.GetKind() == "Secret" || h.r.manifests.IsConfidential(o) {
		return nil, reason.Errorf(reason.ManifestInvalid, "it holds a secret, and is kept in the cluster for everybody to read; let it refer to a Secret of the service instead")
	}
	full, err := complete(ctx, h.r.cluster, h.r.Service, o)
	if k8s.IsUnknownKind(err) {
		full, err = o, nil
	}
	if err != nil {
		return nil, err
	}
	return full.MarshalJSON()
}

// hasDeleteHooks reports whether hooks run at the removal. They do only if the objects are deleted.
func (h *hookRunner) hasDeleteHooks() bool {
	return h.r.record.deletesObjects() && len(h.r.record.Hooks.DeleteHooks) > 0
}

// runPreDelete runs the hooks that come before the objects are deleted.
func (h *hookRunner) runPreDelete(ctx context.Context, run phaseRunner) error {
	if !h.hasDeleteHooks() {
		return nil
	}
	if err := h.loadDeleteHooks(); err != nil {
		return err
	}
	record := &h.r.record
	if !h.beginRun(removalID) && record.Hooks.Failed() {
		// Nobody can correct the manifests any more, and the service must be removed anyway.
		record.Hooks = record.Hooks.Retry(h.newRunID())
	}
	if err := h.save(ctx); err != nil {
		return err
	}
	return run(ctx, order.PreDelete)
}

// runPostDelete runs the hooks that come after the objects are deleted.
func (h *hookRunner) runPostDelete(ctx context.Context, run phaseRunner) error {
	if !h.hasDeleteHooks() {
		return nil
	}
	return run(ctx, order.PostDelete)
}

// loadDeleteHooks reads the stored manifests. After a restart, the record is all that is known of
// the service.
func (h *hookRunner) loadDeleteHooks() error {
	h.r.Service.Name, h.r.IsChange = h.r.Name, true
	var objects []*unstructured.Unstructured
	for _, manifest := range h.r.record.Hooks.DeleteHooks {
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(manifest); err != nil {
			return fmt.Errorf("read hook from inventory: %w", err)
		}
		objects = append(objects, o)
	}
	var err error
	h.r.schedule, err = order.New(objects, false)
	return err
}

// discardAll deletes the hooks of a removed service, or removes only Leat's label from them if its
// objects stay.
func (h *hookRunner) discardAll(ctx context.Context) error {
	for _, o := range h.r.record.Hooks.Objects {
		if h.r.record.deletesObjects() {
			if err := h.discard(ctx, o); err != nil {
				return err
			}
		} else if err := h.r.withLiveObject(ctx, o, h.r.cluster.Release); err != nil {
			return fmt.Errorf("detach hook %s: %w", o.Key, err)
		}
	}
	return nil
}
