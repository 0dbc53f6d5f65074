// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

const (
	// recentPlans is how many replaced plans are remembered for each cluster: an agent may still be downloading for one.
	recentPlans = 3
	// planKept is how long a plan stays in memory after a cluster without a stream asked for it.
	planKept = time.Hour
)

// plans are a cluster's current plan and the latest that it replaced, newest first. Copies stay as they are.
type plans struct {
	current *plan.Plan
	recent  []*plan.Plan
	// outdated is set when the current plan may name commits that are not the latest ones with its content.
	outdated bool
	// asked is when somebody asked last, in seconds since 1970.
	asked *atomic.Int64
}

func (p *plans) touch() {
	if at := time.Now().Unix(); p.asked.Load() != at {
		p.asked.Store(at)
	}
}

// Plan returns the current plan of a cluster.
func (v *View) Plan(cluster string) (*plan.Plan, bool) {
	p, ok := v.plansOf(cluster)
	return p.current, ok
}

// Bundle finds a digest in the current plan of a cluster, in one of the last it replaced, or among what it was granted.
func (v *View) Bundle(cluster string, d digest.Digest) (plan.Bundle, bool) {
	p, ok := v.plansOf(cluster)
	if !ok {
		return plan.Bundle{}, false
	}
	if bundle, ok := p.current.Bundle(d); ok {
		return bundle, true
	}
	for _, old := range p.recent {
		if bundle, ok := old.Bundle(d); ok {
			return bundle, true
		}
	}
	return v.granted(cluster, d)
}

// plansOf returns a cluster's plans, made now if they are not in memory.
func (v *View) plansOf(cluster string) (plans, bool) {
	v.mu.RLock()
	p := v.plans[cluster]
	if p != nil && !p.outdated {
		defer v.mu.RUnlock()
		p.touch()
		return *p, true
	}
	v.mu.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	p = v.compute(cluster)
	if p == nil {
		return plans{}, false
	}
	v.update(p)
	p.touch()
	return *p, true
}

// update names the latest commits in the current plan.
func (v *View) update(p *plans) {
	if !p.outdated {
		return
	}
	p.outdated = false
	p.current = p.current.At(func(b plan.Bundle) string {
		if latest := v.resolutions[b.Source].Snapshot; latest != nil && latest.Digest == b.Digest {
			return latest.Commit
		}
		return b.Commit // the content has moved on
	})
	v.share(p.current)
}

// compute makes the plan of a cluster, unless somebody else did in the meantime; nil when there is no such cluster. What
// it finds was so before, so it has no trace.
func (v *View) compute(cluster string) *plans {
	if v.clusters[cluster] == nil || v.plans[cluster] != nil {
		return v.plans[cluster]
	}
	names := v.index.Services(cluster)
	inputs := make([]plan.Input, len(names))
	for i, name := range names {
		inputs[i] = v.input(v.index.Service(name))
	}
	p := &plans{asked: new(atomic.Int64)}
	why := plan.Cause{Time: now()}
	p.current = plan.Compute(cluster, inputs, why).With(v.settings(cluster), why)
	v.share(p.current)
	v.plans[cluster] = p
	return p
}

// revise brings those plans in memory up to date that a change touches. It returns the names of clusters whose plan has
// another version now or ended.
func (v *View) revise(ctx context.Context, d *dirt, why cause) []string {
	var changed []string
	for name := range d.ended {
		changed = append(changed, name)
	}
	for name, services := range d.services {
		if v.reviseCluster(ctx, name, services, why) {
			changed = append(changed, name)
		}
	}
	return changed
}

func (v *View) reviseCluster(ctx context.Context, name string, services map[string]struct{}, why cause) bool {
	p := v.plans[name]
	if p == nil {
		return false // made when it is asked for
	}
	span := v.startCompute(ctx, name, why)
	defer span.End()
	var inputs []plan.Input
	var gone []string
	for service := range services {
		if s := v.index.Service(service); s != nil && s.Spec.Cluster == name {
			inputs = append(inputs, v.input(s))
		} else {
			gone = append(gone, service)
		}
	}
	v.update(p)
	last := p.current
	because := plan.Cause{Time: now(), Traceparent: why.carry(span), Last: last}
	p.current = plan.Revise(last, inputs, gone, because).With(v.settings(name), because)
	v.share(p.current)
	if last.Version == p.current.Version {
		return false
	}
	v.lineage(name).add(v.hash(last.Version))
	p.recent = append([]*plan.Plan{last}, p.recent[:min(len(p.recent), recentPlans-1)]...)
	return true
}

// settings are what the cluster's agent is told.
func (v *View) settings(cluster string) syncpolicy.AgentSettings {
	return v.clusters[cluster].Spec.Settings.Over(v.p.Settings)
}

// share lets a plan that nobody has seen yet use what others use already.
func (v *View) share(next *plan.Plan) {
	if v.pool.Full() {
		v.pool.Renew(v.current)
	}
	v.pool.Share(next)
}

func (v *View) current(yield func(*plan.Plan) bool) {
	for _, p := range v.plans {
		if !yield(p.current) {
			return
		}
	}
}

// DropPlans forgets the plans of clusters that have no stream and did not ask since then.
func (v *View) DropPlans(since time.Time) {
	before := since.Unix()
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, p := range v.plans {
		if p.asked.Load() < before && !v.presence.streaming(v.clusters[name].UID) {
			delete(v.plans, name)
		}
	}
}

func (v *View) input(service *catalog.Service) plan.Input {
	snapshots := make([]*catalog.Snapshot, len(service.Spec.Sources))
	for i, source := range service.Spec.Sources {
		snapshots[i] = v.resolutions[source.Normal()].Snapshot
	}
	return plan.Input{Service: service, Snapshots: snapshots}
}

// entry returns a service's entry of its cluster's plan, whether that is in memory or not. The caller holds the lock.
func (v *View) entry(service *catalog.Service) plan.Entry {
	p := v.plans[service.Spec.Cluster]
	if p == nil {
		return v.input(service).Entry()
	}
	entry, _ := p.current.Entry(service.Name)
	return entry
}

// hold notes what a source holds; the zero Resolution forgets it.
func (v *View) hold(source catalog.Source, next catalog.Resolution) {
	if last := v.resolutions[source].Snapshot; last != nil {
		delete(v.holders[last.Digest], source)
		if len(v.holders[last.Digest]) == 0 {
			delete(v.holders, last.Digest)
		}
	}
	if next == (catalog.Resolution{}) {
		delete(v.resolutions, source)
		return
	}
	v.resolutions[source] = next
	if next.Snapshot == nil {
		return
	}
	holders, ok := v.holders[next.Snapshot.Digest]
	if !ok {
		holders = map[catalog.Source]struct{}{}
		v.holders[next.Snapshot.Digest] = holders
	}
	holders[source] = struct{}{}
}

// Pinned tells whether the current plan of a cluster names the digest, in memory or not: whether a source that a service
// names holds it now.
func (v *View) Pinned(d digest.Digest) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for source := range v.holders[d] {
		if v.index.Wanted(source) {
			return true
		}
	}
	return false
}
