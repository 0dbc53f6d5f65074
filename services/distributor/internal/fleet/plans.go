// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// planBook keeps the plans of clusters that asked lately. It is safe for concurrent use.
//
// A plan is computed while the book's lock is held, from what the catalog and the sources hold at
// that moment. The book's lock therefore comes before theirs. Every change of the catalog or of a
// source is followed by revise, so a plan that was computed just before the change does not stay.
type planBook struct {
	catalog *Catalog
	sources *sourceStates
	// admitted comes before the specs of services and what sources hold.
	admitted *admissions
	reports  *reports
	// settings are the settings of all clusters. A cluster's own come first.
	settings syncpolicy.AgentSettings
	tracer   trace.Tracer
	seed     maphash.Seed

	mu sync.RWMutex
	// byUID is by the cluster's uid, so that a cluster that is created again under its name gets
	// plans of its own.
	byUID map[string]*clusterPlans
	pool  *plan.Pool
}

// clusterPlans are the plans of one cluster. The book's lock guards it.
type clusterPlans struct {
	// planSet is empty while no plan is in memory.
	planSet
	// isOutdated is true if the current plan may name commits that are not the latest ones with its
	// content.
	isOutdated bool
	// asked is the time of the last question, in seconds since 1970. Readers write it.
	asked atomic.Int64
	// history is nil until the first plan is replaced.
	history *planHistory
}

func newPlanBook(c *Catalog, s *sourceStates, admitted *admissions, r *reports, settings syncpolicy.AgentSettings, tracer trace.Tracer) *planBook {
	return &planBook{
		catalog: c, sources: s, admitted: admitted, reports: r, settings: settings, tracer: tracer, seed: maphash.MakeSeed(),
		byUID: map[string]*clusterPlans{}, pool: plan.NewPool(),
	}
}

// of returns a cluster's plans. It computes them if they are not in memory. ok is false if there is
// no such cluster.
func (b *planBook) of(cluster string) (set planSet, ok bool) {
	if set, ok := b.inMemory(cluster); ok {
		return set, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found, services := b.catalog.servicesOf(cluster)
	if found == nil {
		return planSet{}, false
	}
	p := b.clusterLocked(found)
	if p.current == nil {
		// The content of the plan is older, so no event caused it and it has no trace.
		why := plan.Cause{Time: catalog.Now(), Pool: b.pool}
		p.current = plan.Compute(cluster, b.ownPart(found), b.inputs(found, services), why)
		b.shareLocked(p.current, nil)
	}
	b.updateLocked(p)
	p.touch()
	return p.planSet, true
}

// inputs returns what a plan is computed from. Services that the cluster's agent cannot carry out are
// withheld, and so are those whose configuration waits for a value; an agent that has not reported yet
// may be of any version. Specs are as they count now: see [nextEnds].
func (b *planBook) inputs(cluster *catalog.Cluster, services []*catalog.Service) []plan.Input {
	inputs, at := b.sources.inputs(services...), catalog.Now()
	for i, service := range services {
		inputs[i].Service = service.AsOf(at)
		inputs[i].IsWithheld, inputs[i].Limits = service.ConfigWaits, b.catalog.AgentLimits(service.Name)
		b.admitted.apply(&inputs[i], b.reports.timeless)
		inputs[i].Service = inputs[i].Service.AsOf(at) // a rollout may hold it at another spec
		// The spec that the agent receives counts.
		inputs[i].IsWithheld = inputs[i].IsWithheld || len(cluster.Agent.Lacks(inputs[i].Service.Spec.Requires())) > 0
	}
	return inputs
}

// needsReport reports whether a plan's entry for a derived service depends on its report: see
// [admissions.apply].
func (b *planBook) needsReport(service *catalog.Service) bool {
	return service.Derived != nil && b.admitted.of(service.UID) == nil && Policies{b.catalog}.of(service) != nil
}

// ownPart returns the part of the cluster's plan about the cluster itself.
func (b *planBook) ownPart(cluster *catalog.Cluster) plan.ClusterPart {
	return plan.ClusterPart{
		Settings: cluster.Spec.Settings.Over(b.settings),
		Facts:    plan.Facts{Labels: cluster.Labels, Annotations: cluster.Annotations},

		RemovalsHeldSince: cluster.RemovalsHeldSince,
	}
}

// inMemory returns a cluster's plans if they are in memory and up to date.
func (b *planBook) inMemory(cluster string) (planSet, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.knownLocked(cluster)
	if p == nil || p.current == nil || p.isOutdated {
		return planSet{}, false
	}
	p.touch()
	return p.planSet, true
}

func (p *clusterPlans) touch() {
	if at := time.Now().Unix(); p.asked.Load() != at {
		p.asked.Store(at)
	}
}

// knownLocked returns a cluster's plans, or nil if there are none or there is no such cluster.
func (b *planBook) knownLocked(cluster string) *clusterPlans {
	if found, ok := b.catalog.Cluster(cluster); ok {
		return b.byUID[found.UID]
	}
	return nil
}

// clusterLocked returns the plans of a cluster that the catalog holds. It adds an empty set if
// there is none.
func (b *planBook) clusterLocked(cluster *catalog.Cluster) *clusterPlans {
	p, ok := b.byUID[cluster.UID]
	if !ok {
		p = &clusterPlans{}
		b.byUID[cluster.UID] = p
	}
	return p
}

// updateLocked names the latest commits in the current plan.
func (b *planBook) updateLocked(p *clusterPlans) {
	if p.isOutdated {
		last := p.current
		p.isOutdated, p.current = false, b.sources.latest(last)
		b.shareLocked(p.current, last)
	}
}

// entry returns a service's entry of its cluster's plan. If that plan is not in memory, only the
// entry is computed.
func (b *planBook) entry(service *catalog.Service) plan.Entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if p := b.knownLocked(service.Spec.Cluster); p != nil && p.current != nil {
		entry, _ := p.current.Entry(service.LocalName())
		return entry
	}
	cluster, ok := b.catalog.Cluster(service.Spec.Cluster)
	if !ok {
		cluster = &catalog.Cluster{}
	}
	return b.inputs(cluster, []*catalog.Service{service})[0].Entry()
}

// revise updates the plans in memory that a change touches. It returns the names of clusters whose
// plan has another version now. The lock is held for one cluster at a time, because a commit may
// touch all of them.
func (b *planBook) revise(ctx context.Context, s *changeSet, trigger *catalog.Trigger) []string {
	if b.isEmpty() {
		return nil
	}
	var changed []string
	for cluster, services := range s.services {
		if b.reviseCluster(ctx, cluster, services, trigger) {
			changed = append(changed, cluster)
		}
	}
	return changed
}

// isEmpty reports whether the book has no plans.
func (b *planBook) isEmpty() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.byUID) == 0
}

func (b *planBook) reviseCluster(ctx context.Context, name string, services map[string]struct{}, trigger *catalog.Trigger) (hasChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.knownLocked(name); p == nil || p.current == nil {
		return false // it is computed at the next question
	}
	cluster, own, gone := b.catalog.servicesNamed(name, services)
	if cluster == nil {
		return false
	}
	p := b.byUID[cluster.UID]
	if p == nil || p.current == nil {
		return false // the cluster is another one since then
	}
	_, span := b.tracer.Start(trigger.Follow(ctx), "plan.compute", trace.WithAttributes(attribute.String("leat.cluster", name)))
	defer span.End()
	b.updateLocked(p)
	why := plan.Cause{Time: catalog.Now(), Trigger: trigger.Within(span), Last: p.current, Pool: b.pool}
	next := plan.Revise(p.current, b.inputs(cluster, own), gone, why).With(b.ownPart(cluster), why)
	b.shareLocked(next, p.current)
	if next.Version == p.current.Version {
		p.current = next
		return false
	}
	b.rememberLocked(p, p.current.Version)
	p.planSet = p.replaceBy(next)
	return true
}

// outdate marks the plans of the services' clusters: they may name another commit of a source than
// the latest. It costs a plan nothing until it is read.
func (b *planBook) outdate(services []*catalog.Service) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, service := range services {
		if p := b.knownLocked(service.Spec.Cluster); p != nil && p.current != nil {
			p.isOutdated = true
		}
	}
}

// shareLocked makes a plan that no reader has seen yet share equal values with other plans. Entries
// that it has in common with the plan before are shared already.
func (b *planBook) shareLocked(next, last *plan.Plan) {
	if b.pool.Full() {
		b.pool.Renew(func(yield func(*plan.Plan) bool) {
			for _, p := range b.byUID {
				if p.current != nil && !yield(p.current) {
					return
				}
			}
		})
	}
	b.pool.Share(next, last)
}

// recognises reports whether the version is the current one of the cluster's plan, or an earlier
// one.
func (b *planBook) recognises(cluster, version string) bool {
	if set, ok := b.of(cluster); ok && set.current.Version == version {
		return true
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.knownLocked(cluster)
	return p != nil && p.history.has(maphash.String(b.seed, version))
}

// remember makes recognises true of a version that this replica never had.
func (b *planBook) remember(cluster, version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.catalog.Cluster(cluster); ok {
		b.rememberLocked(b.clusterLocked(found), version)
	}
}

func (b *planBook) rememberLocked(p *clusterPlans, version string) {
	if p.history == nil {
		p.history = &planHistory{}
	}
	p.history.add(maphash.String(b.seed, version))
}

// drop removes plans that were not asked for since then from memory, except plans of clusters that
// keep selects.
func (b *planBook) drop(since time.Time, keep func(clusterUID string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, p := range b.byUID {
		switch {
		case p.asked.Load() >= since.Unix() || keep(uid):
		case p.history == nil:
			delete(b.byUID, uid)
		default:
			p.planSet, p.isOutdated = planSet{}, false
		}
	}
}

// forget drops all that is known of the plans of deleted clusters, and with it what their agents
// could read.
func (b *planBook) forget(clusterUIDs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range clusterUIDs {
		delete(b.byUID, uid)
	}
}
