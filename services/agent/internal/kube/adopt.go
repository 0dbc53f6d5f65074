// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Reown implements reconcile.Cluster, with one patch of the object's metadata.
func (c *Client) Reown(ctx context.Context, live *unstructured.Unstructured, managedFields []any) (done *unstructured.Unstructured, err error) {
	ref := inventory.RefOf(live)
	resource, err := c.resource(ctx, ref)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(reownPatch(live, managedFields))
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	err = c.try(ctx, ref.Kind, func(ctx context.Context) error {
		done, err = resource.Patch(ctx, ref.Name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		if apierrors.IsNotFound(err) {
			return backoff.Permanent(fmt.Errorf("%w: %w", k8s.ErrReplaced, err))
		}
		return replaced(err)
	})
	return done, err
}

// reownPatch returns a patch that the API server rejects if the object was replaced or has changed
// since it was read. The uid detects the former, and the resource version the latter.
func reownPatch(live *unstructured.Unstructured, managedFields []any) []operation {
	patch := []operation{
		{Op: "replace", Path: "/metadata/managedFields", Value: managedFields},
		{Op: "replace", Path: "/metadata/uid", Value: live.GetUID()},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
	}
	if _, there := live.GetAnnotations()[fields.LastAppliedAnnotation]; there {
		path := "/metadata/annotations/" + strings.ReplaceAll(fields.LastAppliedAnnotation, "/", "~1")
		patch = append(patch, operation{Op: "remove", Path: path})
	}
	return patch
}
