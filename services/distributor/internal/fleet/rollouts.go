// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
)

// Rollouts is the view for what drives rollouts. It is safe for concurrent use.
type Rollouts struct{ View *View }

var _ rollouts.Fleet = Rollouts{}

// Refresh implements rollouts.Fleet.
func (r Rollouts) Refresh(ctx context.Context) error { return r.View.Refresh(ctx) }

// Look implements rollouts.Fleet. A service belongs to the first policy that covers it.
func (r Rollouts) Look() rollouts.Sight {
	v := r.View
	sight := rollouts.Sight{Policies: policies(v.Catalog), Members: map[string][]rollouts.Seen{}}
	isCovered := map[string]bool{}
	if len(sight.Policies) > 0 {
		r.lookAtServices(&sight, isCovered)
	}
	for _, known := range v.admitted.all() {
		if known.Content != nil && !isCovered[known.ServiceUID] {
			sight.Uncovered = append(sight.Uncovered, known)
		}
	}
	return sight
}

func (r Rollouts) lookAtServices(sight *rollouts.Sight, isCovered map[string]bool) {
	v := r.View
	for _, key := range (Observations{v}).Keys(catalog.KindService) {
		service, ok := v.Service(key.Name)
		if !ok {
			continue
		}
		cluster, ok := v.Cluster(service.Spec.Cluster)
		if !ok {
			continue
		}
		i := slices.IndexFunc(sight.Policies, func(p *catalog.RolloutPolicy) bool { return p.Covers(service, cluster.Labels) })
		if i < 0 {
			continue
		}
		isCovered[service.UID] = true
		uid := sight.Policies[i].UID
		sight.Members[uid] = append(sight.Members[uid], r.see(service, cluster))
	}
}

func (r Rollouts) see(service *catalog.Service, cluster *catalog.Cluster) rollouts.Seen {
	v := r.View
	isConnected, _ := v.presenceOf(cluster)
	seen := rollouts.Seen{
		Service: service, ClusterLabels: cluster.Labels, Held: v.admitted.of(service.UID), Report: v.reports.of(service).Report,
		IsOnline: isConnected && !service.Spec.Wanted().Paused,
	}
	for _, source := range service.Spec.Sources {
		if known := v.Resolution(source.Normal()).Snapshot; known != nil {
			seen.Live = append(seen.Live, catalog.HeldSource{Source: source.Normal(), Snapshot: *known})
		}
	}
	return seen
}

// hold says why a service has other content than its sources hold. Nil: it has theirs.
func (r Rollouts) hold(service *catalog.Service) *Hold {
	known := r.View.admitted.of(service.UID)
	if known == nil {
		return nil
	}
	if known.Pin != nil {
		return &Hold{Admission: known}
	}
	for _, source := range service.Spec.Sources {
		live, held := r.View.Resolution(source.Normal()).Snapshot, snapshotIn(known.Content, source.Normal())
		if held != nil && live != nil && live.Digest != held.Digest {
			hold := &Hold{Admission: known}
			if policy := policyOf(r.View.Catalog, service); policy != nil {
				hold.Policy = policy.Name
			}
			return hold
		}
	}
	return nil
}
