// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
)

func (r *run) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	live, err := r.submit(ctx, o, false)
	if err != nil {
		return err
	}
	object := entryOf(o)
	object.UID = string(live.GetUID())
	r.unit.applied(r, Observation{
		Service: r.service.Name, Object: object, ResourceVersion: live.GetResourceVersion(), Health: health.Of(live),
	})
	if isDefinition(o) {
		return r.engine.params.Cluster.AwaitDefined(ctx, live)
	}
	return nil
}

// applied notes the cluster's answer to an apply. Unlike other parts of the run it is called concurrently.
func (u *unit) applied(r *run, o Observation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.record.Objects.Put(o.Object)
	u.record.Objects.Put(o.Object)
	u.observed[o.Object.Key] = o
}
