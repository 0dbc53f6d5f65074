// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// admissions hold the specs and contents with which services are planned instead of their own specs
// and their sources' present content. It follows the store's log, so all replicas plan alike, and a
// restart changes nothing. It is safe for concurrent use.
type admissions struct {
	catalog *Catalog

	mu    sync.RWMutex
	byUID map[string]*catalog.Admission
	// held counts the services with content that rollouts admitted.
	held int
	// holders counts how often each digest is held.
	holders map[digest.Digest]int
	// contents shares equal lists: members of a rollout have few different ones.
	contents interned[catalog.HeldSource, []catalog.HeldSource]
	// staged are the staged specs of services.
	staged *stagedSpecs
	// variants are the stored variants of configurations, by id. Variants at which services are held
	// may be ones that no service has of its own.
	variants map[string]catalog.VariantState
	// configs shares equal configurations by name.
	configs interned[string, *catalog.StagedConfig]
}

func newAdmissions(c *Catalog) *admissions {
	return &admissions{
		catalog: c, byUID: map[string]*catalog.Admission{}, holders: map[digest.Digest]int{},
		contents: interned[catalog.HeldSource, []catalog.HeldSource]{}, staged: newStagedSpecs(), variants: map[string]catalog.VariantState{}, configs: interned[string, *catalog.StagedConfig]{},
	}
}

// put takes over changes of the store. If isAll, they are all that there is. It returns the names of
// services that may have another plan.
func (a *admissions) put(changes []catalog.Admission, isAll bool) (services []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isAll {
		for uid, known := range a.byUID {
			services = append(services, known.Service)
			a.removeLocked(uid)
		}
	}
	for _, next := range changes {
		services = append(services, next.Service)
		a.removeLocked(next.ServiceUID)
		if next.Content == nil && next.Pin == nil {
			continue
		}
		if len(next.Content) == 1 {
			next.Content = a.contents.share(next.Content[0], next.Content)
		}
		if next.Spec != nil {
			next.Spec = a.staged.share(next.Spec)
		}
		if next.Staged != nil {
			next.Staged = a.configs.share(next.Staged.Name, next.Staged)
		}
		a.byUID[next.ServiceUID] = &next
		a.countLocked(&next, 1)
	}
	return services
}

func (a *admissions) removeLocked(uid string) {
	if known := a.byUID[uid]; known != nil {
		a.countLocked(known, -1)
		delete(a.byUID, uid)
	}
}

func (a *admissions) countLocked(of *catalog.Admission, n int) {
	if of.Content != nil {
		a.held += n
	}
	held := of.Content
	if of.Pin != nil {
		held = slices.Concat(held, of.Pin.Content)
	}
	for _, h := range held {
		d := h.Snapshot.Digest
		if a.holders[d] += n; a.holders[d] <= 0 {
			delete(a.holders, d)
		}
	}
}

// of returns the held state of a service as it counts now, or nil.
func (a *admissions) of(uid string) *catalog.Admission {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byUID[uid].AsOf(catalog.Now())
}

// all returns everything that is held now, in no order.
func (a *admissions) all() []*catalog.Admission {
	a.mu.RLock()
	defer a.mu.RUnlock()
	at := catalog.Now()
	all := make([]*catalog.Admission, 0, len(a.byUID))
	for _, known := range a.byUID {
		if known = known.AsOf(at); known != nil {
			all = append(all, known)
		}
	}
	return all
}

// count returns how many services rollouts hold.
func (a *admissions) count() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.held
}

// holds reports whether a service is held at content with that digest.
func (a *admissions) holds(d digest.Digest) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.holders[d] > 0
}

// apply replaces the spec of a service, and what its sources hold, by the release that it is held at. A source
// of the spec that nothing is held of is followed. A service that a policy covers waits until the policy has
// taken it over, unless its cluster has just this release already: it must not get what the others
// do not have yet. The time at which the service was made proves nothing: one that is derived has
// the time of its global service, and a label can bring any service under a policy.
func (a *admissions) apply(input *plan.Input, reportOf func(*catalog.Service) *catalog.ServiceReport) {
	known := a.of(input.Service.UID)
	if known == nil {
		input.IsWithheld = input.IsWithheld || Policies{a.catalog}.of(input.Service) != nil && !hasApplied(reportOf(input.Service), input)
		return
	}
	input.Service = a.withConfig(input.Service, known)
	input.IsWithheld = input.Service.ConfigWaits
	if known.Spec != nil {
		holdSpec(input, known)
	}
	for i, source := range input.Service.Spec.Sources {
		if held := snapshotIn(known.Holds(), source.Normal()); held != nil {
			input.Snapshots[i] = held
		}
	}
}

// holdSpec gives a service the spec that it is held at, with the content that rollouts admitted for it.
func holdSpec(input *plan.Input, known *catalog.Admission) {
	own, live := input.Service.Spec.Sources, input.Snapshots
	held := *input.Service
	held.Spec = known.SpecFor(held.Spec)
	input.Service, input.Snapshots = &held, make([]*catalog.Snapshot, len(held.Spec.Sources))
	for i, source := range held.Spec.Sources {
		normal := source.Normal()
		if input.Snapshots[i] = snapshotIn(known.Content, normal); input.Snapshots[i] != nil {
			continue
		}
		if j := slices.IndexFunc(own, func(s catalog.Source) bool { return s.Normal() == normal }); j >= 0 {
			input.Snapshots[i] = live[j]
		}
	}
}

// hasApplied reports whether an agent has applied, by its report, the spec, the configuration and
// the snapshots.
func hasApplied(report *catalog.ServiceReport, input *plan.Input) bool {
	isApplied := func(applied string, s *catalog.Snapshot) bool { return s != nil && s.Digest.String() == applied }
	return report != nil && slices.EqualFunc(report.AppliedDigests, input.Snapshots, isApplied) &&
		report.AppliedConfigDigest == input.Service.ConfigDigest && report.ObservedSpecDigest == plan.SpecDigest(input.Service.Spec, input.Limits)
}

// specFor returns the spec that a service is planned with.
func (a *admissions) specFor(service *catalog.Service) catalog.ServiceSpec {
	known := a.of(service.UID)
	spec := known.SpecFor(service.Spec)
	if isConfigHeld(service, known) {
		spec.Config = known.Staged.Planned()
	}
	return spec
}

// isSpecHeld reports whether a service is planned with another staged spec than its own.
func (a *admissions) isSpecHeld(service *catalog.Service) bool {
	known := a.of(service.UID)
	return known != nil && known.Spec != nil && known.Spec.Digest != a.staged.of(service.Spec).Digest
}

// isHeld reports whether a service is planned with another staged spec or another configuration than its own.
func (a *admissions) isHeld(service *catalog.Service) bool {
	return a.isSpecHeld(service) || isConfigHeld(service, a.of(service.UID))
}

// snapshotIn returns the held snapshot of a source, or nil.
func snapshotIn(held []catalog.HeldSource, source catalog.Source) *catalog.Snapshot {
	for i := range held {
		if held[i].Source == source {
			return &held[i].Snapshot
		}
	}
	return nil
}

// Policies is the catalog for questions about rollout policies. It is safe for concurrent use.
type Policies struct{ Catalog *Catalog }

// hasAny reports whether there are rollout policies.
func (policies Policies) hasAny() bool {
	c := policies.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.contents.policies.objects) > 0
}

// inOrder returns the rollout policies, by precedence.
func (policies Policies) inOrder() []*catalog.RolloutPolicy {
	c := policies.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := c.contents.policies.unsorted()
	slices.SortFunc(all, catalog.ComparePolicies)
	return all
}

// of returns the policy that decides about a service, or nil.
func (policies Policies) of(service *catalog.Service) *catalog.RolloutPolicy {
	all := policies.inOrder()
	if len(all) == 0 {
		return nil
	}
	labels := map[string]string(nil)
	if cluster, ok := policies.Catalog.Cluster(service.Spec.Cluster); ok {
		labels = cluster.Labels
	}
	if i := slices.IndexFunc(all, func(p *catalog.RolloutPolicy) bool { return p.Covers(service, labels) }); i >= 0 {
		return all[i]
	}
	return nil
}
