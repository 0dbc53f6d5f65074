// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"time"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

// refreshFacts is how old the known kinds may be when templates ask for them.
const refreshFacts = 10 * time.Second

// Facts answer templates' questions about the cluster. It is safe for concurrent use.
type Facts struct{ client *Client }

var _ manifest.Cluster = Facts{}

// Facts returns the facts of this cluster.
func (c *Client) Facts() Facts { return Facts{client: c} }

// ClusterFacts implements manifest.Cluster: the API server's version, and the versions and kinds
// that it serves. Versions whose own server does not answer count with their last known kinds, so
// that an outage of metrics does not render other objects. It returns the errors of [k8s.API].
func (f Facts) ClusterFacts(ctx context.Context) (render.ClusterFacts, error) {
	return request(ctx, f.client, "facts", func(ctx context.Context) (render.ClusterFacts, error) {
		version, err := f.client.Version(ctx)
		if err != nil {
			return render.ClusterFacts{}, err
		}
		versions, err := f.client.kinds.served(ctx)
		return render.ClusterFacts{KubernetesVersion: version, APIVersions: versions}, err
	})
}

// FactsChanged implements manifest.Cluster: a definition or an API service came, went or changed.
func (f Facts) FactsChanged() <-chan struct{} { return f.client.kinds.changed.Next() }

// served returns the versions and kinds that the API server serves, in Helm's form and sorted: v1,
// v1/Pod, apps/v1, apps/v1/Deployment.
func (k *kinds) served(ctx context.Context) ([]string, error) {
	if err := k.refresh(ctx, refreshFacts); err != nil {
		return nil, err
	}
	k.mu.Lock()
	known := k.known
	k.mu.Unlock()
	var all []string
	for kind := range known.mappings {
		all = append(all, kind.GroupVersion().String(), kind.GroupVersion().String()+"/"+kind.Kind)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
