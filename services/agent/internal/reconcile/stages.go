// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

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
