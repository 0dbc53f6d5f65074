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

// PlannedSpec returns the spec that a service is planned with: the one that a rollout holds it at, or its own.
func (r Rollouts) PlannedSpec(service *catalog.Service) catalog.ServiceSpec {
	return r.View.admitted.specFor(service)
}

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
	own := service.Spec.Wanted()
	seen := rollouts.Seen{
		Service: service, ClusterLabels: cluster.Labels, Spec: v.admitted.staged.of(service.Spec), Held: v.admitted.of(service.UID),
		Report: v.reports.of(service).Report, IsOnline: isConnected && !own.Paused && !own.DryRun, Limits: v.AgentLimits(service.Name),
	}
	seen.IsDeriving = seen.Held == nil && service.Derived != nil && isBehind(v.Catalog, service.Derived.Global)
	see := func(source catalog.Source) {
		normal := source.Normal()
		isSeen := slices.ContainsFunc(seen.Live, func(h catalog.HeldSource) bool { return h.Source == normal })
		if known := v.Resolution(normal).Snapshot; known != nil && !isSeen {
			seen.Live = append(seen.Live, catalog.HeldSource{Source: normal, Snapshot: *known})
		}
	}
	for _, source := range service.Spec.Sources {
		see(source)
	}
	if release := seen.Held.Release(); release.Spec != nil && release.Spec.Digest != seen.Spec.Digest {
		for _, source := range release.Spec.Sources {
			see(source)
		}
	}
	return seen
}

// hold says why a service has another release than its spec and its sources make. Nil: it has that one.
func (r Rollouts) hold(service *catalog.Service) *Hold {
	v := r.View
	known := v.admitted.of(service.UID)
	if known == nil {
		return nil
	}
	if known.Pin != nil {
		return &Hold{Admission: known}
	}
	isHeld := v.admitted.isSpecHeld(service)
	for _, source := range v.admitted.specFor(service).Sources {
		live, held := v.Resolution(source.Normal()).Snapshot, snapshotIn(known.Content, source.Normal())
		isHeld = isHeld || held != nil && live != nil && live.Digest != held.Digest
	}
	if !isHeld {
		return nil
	}
	hold := &Hold{Admission: known}
	if policy := policyOf(v.Catalog, service); policy != nil {
		hold.Policy = policy.Name
	}
	return hold
}
