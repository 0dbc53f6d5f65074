// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/order"
)

// removalID is the change for which the hooks of a removal run.
const removalID = "removal"

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
		// The manifests can no longer be corrected, and the service must be removed anyway.
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

// phaseRunner runs the stages of a phase.
type phaseRunner func(ctx context.Context, phase order.Phase) error
