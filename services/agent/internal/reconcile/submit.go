// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// submit applies one object and returns what the cluster made of it. Repair tells that the manifest is what was applied
// last, and that somebody has changed the object since: fields that they took are taken back.
func (r *run) submit(ctx context.Context, o *unstructured.Unstructured, repair bool) (*unstructured.Unstructured, error) {
	return r.engine.params.Cluster.Apply(ctx, o, ApplyOptions{
		Force: r.service.Spec.ForceConflicts || repair, Confidential: r.result.confidential(o),
	})
}
