// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// The manifests of hooks that run when a service leaves the plan are stored with its inventory,
// because the bundle may be gone by then. So they must not contain secrets.

// maxDeleteHooks bounds the kept manifests, in bytes: they share a ConfigMap with the inventory.
const maxDeleteHooks = 128 << 10

// deleteHookManifests returns the manifests to store.
func deleteHookManifests(ctx context.Context, r *run) (all []json.RawMessage, err error) {
	size := 0
	for _, s := range r.schedule.Of(order.PreDelete, order.PostDelete) {
		for _, m := range s.Members {
			manifest, err := deleteHookManifest(ctx, r, m.Object)
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

func deleteHookManifest(ctx context.Context, r *run, o *unstructured.Unstructured) (json.RawMessage, error) {
	if o.GetKind() == "Secret" || r.manifests.IsConfidential(o) {
		return nil, reason.Errorf(reason.ManifestInvalid, "it holds a secret, and is kept in the cluster for everybody to read; let it refer to a Secret of the service instead")
	}
	full, err := complete(ctx, r.cluster, r.Service, o)
	if k8s.IsUnknownKind(err) {
		full, err = o, nil
	}
	if err != nil {
		return nil, err
	}
	return full.MarshalJSON()
}
