// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Rollouts is the view for what drives rollouts. It is safe for concurrent use.
type Rollouts struct{ View *View }

var _ drive.Fleet = Rollouts{}

// Refresh implements drive.Fleet.
func (r Rollouts) Refresh(ctx context.Context) error { return r.View.Refresh(ctx) }

// PlannedSpec returns the spec that a service is planned with: the one that a rollout holds it at, or its own.
func (r Rollouts) PlannedSpec(service *catalog.Service) catalog.ServiceSpec {
	return r.View.admitted.specFor(service)
}

// ClusterOf implements drive.Fleet.
func (r Rollouts) ClusterOf(service *catalog.Service) *catalog.Cluster {
	cluster, _ := Globals{r.View.Catalog}.SeenCluster(service)
	return cluster
}

// Still implements drive.Fleet.
func (r Rollouts) Still(look func()) {
	r.View.refreshing.Lock()
	defer r.View.refreshing.Unlock()
	look()
}

// Revision implements drive.Fleet.
func (r Rollouts) Revision() int64 { return r.View.Catalog.Revision() }

// Behind implements drive.Fleet.
func (r Rollouts) Behind() func(*catalog.Service) bool {
	behind := Globals{r.View.Catalog}.behind()
	return func(service *catalog.Service) bool {
		return service.Derived != nil && (behind[service.Derived.Global] || !Globals{r.View.Catalog}.isPresent(service))
	}
}

// maxLayerPairs bounds the pairs of a reference and a set that Layers compares: the leader does nothing else
// meanwhile.
const maxLayerPairs = 1 << 20

// layerReference is a reference to a set, in a document of a project.
type layerReference struct{ project, text string }

func (r layerReference) leadsTo(set string) bool {
	return (&catalog.Config{References: map[string]string{"": r.text}}).NamesSet(r.project, set)
}

// Layers implements drive.Fleet. It returns all sets of the projects of the services, and sets of
// others that a reference leads to. If there are too many references to follow, it returns all
// sets.
func (r Rollouts) Layers(services []*catalog.Service) []string {
	if len(services) == 0 {
		return nil
	}
	v := r.View
	v.Catalog.mu.RLock()
	sets := maps.Clone(v.Catalog.contents.sets.objects)
	v.Catalog.mu.RUnlock()
	projects, references := map[string]struct{}{}, map[layerReference]struct{}{}
	var open []layerReference
	follow := func(project string, config *catalog.Config) {
		if !config.NamesSets() {
			return
		}
		for _, text := range config.References {
			reference := layerReference{project, text}
			if _, isKnown := references[reference]; !isKnown && catalog.IsHubReference(text) {
				references[reference] = struct{}{}
				open = append(open, reference)
			}
		}
	}
	var uids []string
	for _, service := range services {
		project := objectname.Project(service.Name)
		if _, isKnown := projects[project]; !isKnown {
			projects[project] = struct{}{}
			if own := v.Catalog.project(project); own != nil {
				uids = append(uids, own.UID)
			}
		}
		follow(project, service.Spec.Config)
	}
	add := func(isLayer func(path string) bool) {
		for path, set := range sets {
			if isLayer(path) {
				delete(sets, path)
				uids = append(uids, set.UID)
				follow(objectname.Project(path), set.Spec.Config)
			}
		}
	}
	add(func(path string) bool {
		_, isOwn := projects[objectname.Project(path)]
		return isOwn
	})
	for compared := 0; len(open) > 0; open = open[1:] {
		if compared += len(sets); compared > maxLayerPairs {
			add(func(string) bool { return true })
			break
		}
		add(open[0].leadsTo)
	}
	slices.Sort(uids)
	return uids
}

// IsNeeded implements drive.Fleet.
func (r Rollouts) IsNeeded() bool {
	return Policies{r.View.Catalog}.hasAny() || r.View.admitted.count() > 0
}

// Count returns how many services each policy covers, by its uid, and how many of them are held or pinned.
func (r Rollouts) Count() (covered, held map[string]int) {
	covered, held = map[string]int{}, map[string]int{}
	r.eachCovered(Policies{r.View.Catalog}.inOrder(), func(policy *catalog.RolloutPolicy, service *catalog.Service, _ *catalog.Cluster) {
		covered[policy.UID]++
		if r.View.admitted.of(service.UID) != nil {
			held[policy.UID]++
		}
	})
	return covered, held
}

// eachCovered calls fn with each service under one of the policies, which are by precedence.
func (r Rollouts) eachCovered(policies []*catalog.RolloutPolicy, fn func(*catalog.RolloutPolicy, *catalog.Service, *catalog.Cluster)) {
	v := r.View
	if len(policies) == 0 {
		return
	}
	for _, key := range (Observations{v}).Keys(catalog.KindService) {
		service, ok := v.Catalog.Service(key.Name)
		if !ok {
			continue
		}
		cluster, ok := v.Catalog.Cluster(service.Spec.Cluster)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(policies, func(p *catalog.RolloutPolicy) bool { return p.Covers(service, cluster.Labels) }); i >= 0 {
			fn(policies[i], service, cluster)
		}
	}
}

func (r Rollouts) see(service *catalog.Service, cluster *catalog.Cluster) drive.Seen {
	v := r.View
	isConnected, _ := v.Presence.presenceOf(cluster)
	at := catalog.Now()
	counting, ended := service.AsOf(at), service.Spec.LastEnd(at)
	if held := v.admitted.specFor(service).LastEnd(at); held.After(ended) {
		ended = held
	}
	own := counting.Spec.Wanted()
	seen := drive.Seen{
		Service: counting, Ended: ended, ClusterUID: cluster.UID, ClusterLabels: cluster.Labels, Spec: v.admitted.staged.of(service.Spec), Held: v.admitted.of(service.UID),
		Config: service.ConfigName, ConfigWaits: service.ConfigWaits, HasSets: r.hasSets(service),
		Report: v.reports.of(service).Report, IsOnline: isConnected && !own.Paused && !own.DryRun, Limits: v.Catalog.AgentLimits(service.Name),
	}
	seen.ConfigDigest = v.admitted.withConfig(service, seen.Held).ConfigDigest
	seen.IsDeriving = seen.Held.Release().Content == nil && service.Derived != nil && Globals{v.Catalog}.isBehind(service.Derived.Global)
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

// hold returns why a service, whose entry in its cluster's plan is given, has another release than
// its spec and its sources make. Nil: it has that one.
func (r *Records) hold(service *catalog.Service, entry plan.Entry) *Hold {
	known := r.admitted.of(service.UID)
	if known == nil {
		return r.holdNewcomer(service, entry)
	}
	if known.Pin != nil {
		return &Hold{Admission: known}
	}
	hold := &Hold{Admission: known}
	if r.admitted.isSpecHeld(service) {
		hold.Own = r.admitted.staged.of(service.Spec)
	}
	hold.IsConfigHeld = isConfigHeld(service, known)
	isHeld := hold.Own != nil || hold.IsConfigHeld
	for _, source := range r.admitted.specFor(service).Sources {
		live, held := r.sources.resolution(source.Normal()).Snapshot, snapshotIn(known.Content, source.Normal())
		isHeld = isHeld || held != nil && live != nil && live.Digest != held.Digest
	}
	if !isHeld {
		return nil
	}
	if policy := (Policies{r.catalog}).of(service); policy != nil {
		hold.Policy = policy.Name
	}
	return hold
}

// holdNewcomer returns the hold of a service that is planned with nothing because a policy covers it and has not
// taken it over. Nil: it waits for something else, or for nothing.
func (r *Records) holdNewcomer(service *catalog.Service, entry plan.Entry) *Hold {
	isUnknown := func(source catalog.Source) bool { return r.sources.resolution(source.Normal()).Snapshot == nil }
	if len(entry.Bundles) > 0 || service.ConfigWaits || len(service.Spec.Sources) == 0 || slices.ContainsFunc(service.Spec.Sources, isUnknown) {
		return nil
	}
	policy := Policies{r.catalog}.of(service)
	if policy == nil {
		return nil
	}
	return &Hold{Admission: &catalog.Admission{}, Policy: policy.Name, IsNewcomer: true}
}

// waitsFor names what a service waits for that a policy has not taken over.
func (r *Records) waitsFor(service *catalog.Service, policy string) string {
	name := objectname.Display(policy)
	if from := service.Derived; from != nil {
		isBefore := func(m GlobalMember) bool { return m.Service.Derived != nil && r.admitted.isHeld(m.Service) }
		if (Globals{r.catalog}).isBehind(from.Global) || slices.ContainsFunc(Globals{r.catalog}.Members(from.Global, ""), isBefore) {
			return fmt.Sprintf("it waits until rolloutpolicy %s has brought the present template of global service %s to the services that had an earlier one",
				name, objectname.Display(from.Global))
		}
	}
	return fmt.Sprintf("it waits until rolloutpolicy %s takes it over, within seconds; if it goes on waiting, the commit that the other services have "+
		"of a ref does not have its folder, and it waits until they have one that does", name)
}
