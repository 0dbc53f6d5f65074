// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/setmap"
)

// lookout keeps a replica's view of the services under policies, and reads the announced ones
// again. It is for one goroutine.
//
// The view of a service follows from the service, its cluster's labels and presence, its held
// state, the limits of its project, its report, and the content of its sources:
//
//   - The view announces a service that was changed, reported on, admitted, or whose limits changed.
//   - It announces a cluster whose labels changed, which may bring any of its services under another policy.
//   - The end of a presence that another replica stored is not announced. So the presence of each
//     cluster with a covered service is read at every look.
//   - A source that changed is announced by its repository. The services whose own specs name it are announced,
//     too, but not the ones that are held at a spec which names it: an index finds both.
//   - The end of a derivation is not announced. It matters for newcomers alone, and each is read in every
//     time.
//   - An edit of a set, or of a list of sets, is announced by the services whose configuration it changes.
//   - An admission of a service that is gone is found because there are more admissions than services that are
//     seen with one.
//
// A changed policy may cover any service, so all are read.
type lookout struct {
	view     *View
	policies []*catalog.RolloutPolicy
	// groups are the services of each policy, by its uid.
	groups map[string]*group
	// covered are the services under a policy, by path.
	covered  map[string]coverage
	clusters map[string]*seenCluster
	sources  seenSources
	// newcomers are the paths of derived services that are not held.
	newcomers map[string]struct{}
	// held counts the covered services that are held at content.
	held int
	// isFirst is true while only clusters are remembered, and services are read for the first time.
	isFirst bool
}

// coverage is the memory of a service under a policy.
type coverage struct {
	policy, cluster, uid string
	sources              []catalog.Source
	isHeld               bool
}

// seenCluster is the memory of a cluster.
type seenCluster struct {
	labels   map[string]string
	isOnline bool
	// services are the covered ones.
	services map[string]struct{}
}

// group is the services of one policy.
type group struct {
	// members are sorted by path.
	members []drive.Seen
	// put are the services that this look has seen, by path, and gone the uids of services that it has
	// not found.
	put  map[string]drive.Seen
	gone map[string]struct{}
}

// seenSources holds the last seen content of sources.
type seenSources struct {
	held         map[catalog.Source]*catalog.Snapshot
	readers      setmap.Map[catalog.Source, string]
	byRepository setmap.Map[string, catalog.Source]
}

// Watch implements drive.Fleet.
func (r Rollouts) Watch() drive.Watch { return &lookout{view: r.View} }

// Look implements drive.Watch.
func (l *lookout) Look(changed []catalog.Key, isAll bool) drive.Sight {
	isPolicy := func(key catalog.Key) bool { return key.Kind == catalog.KindRolloutPolicy }
	if isAll || l.groups == nil || slices.ContainsFunc(changed, isPolicy) {
		return l.lookAtAll()
	}
	again := map[string]struct{}{}
	for _, key := range changed {
		if add := announced[key.Kind]; add != nil {
			add(l, key.Name, again)
		}
	}
	maps.Copy(again, l.newcomers)
	for name, known := range l.clusters {
		if len(known.services) > 0 {
			l.addConnected(name, again)
		}
	}
	l.lookAtEach(again)
	return l.sight(false)
}

// announced is what the lookout looks at again when an object of a kind is announced. Of other kinds nothing that it sees
// follows from the object alone, or a changed policy, after which it looks at all services.
var announced = map[catalog.Kind]func(l *lookout, name string, again map[string]struct{}){
	catalog.KindService:    func(_ *lookout, name string, again map[string]struct{}) { again[name] = struct{}{} },
	catalog.KindCluster:    (*lookout).addRelabelled,
	catalog.KindRepository: (*lookout).addReadersOf,
}

// lookAtEach reads services, and the ones that a look adds because it finds that something has
// changed.
func (l *lookout) lookAtEach(again map[string]struct{}) {
	for len(again) > 0 {
		some := again
		again = map[string]struct{}{}
		for path := range some {
			l.lookAt(path, again)
		}
	}
}

// lookAtAll forgets everything, and reads all services.
func (l *lookout) lookAtAll() drive.Sight {
	*l = lookout{
		view: l.view, policies: Policies{l.view.Catalog}.inOrder(),
		groups: map[string]*group{}, covered: map[string]coverage{}, clusters: map[string]*seenCluster{},
		sources: seenSources{
			held: map[catalog.Source]*catalog.Snapshot{}, readers: setmap.Map[catalog.Source, string]{}, byRepository: setmap.Map[string, catalog.Source]{},
		},
		newcomers: map[string]struct{}{},
	}
	for _, policy := range l.policies {
		l.groups[policy.UID] = &group{put: map[string]drive.Seen{}, gone: map[string]struct{}{}}
	}
	if len(l.policies) > 0 {
		for _, key := range (Observations{l.view}).Keys(catalog.KindCluster) {
			l.cluster(key.Name)
		}
		again := map[string]struct{}{}
		l.isFirst = true
		for _, key := range (Observations{l.view}).Keys(catalog.KindService) {
			l.lookAt(key.Name, again)
		}
		l.isFirst = false
		for _, of := range l.groups {
			slices.SortFunc(of.members, compareByPath)
		}
		l.lookAtEach(again)
	}
	return l.sight(true)
}

// cluster returns the memory of a cluster.
func (l *lookout) cluster(name string) *seenCluster {
	known := l.clusters[name]
	if known == nil {
		known = &seenCluster{services: map[string]struct{}{}, isOnline: l.isOnline(name)}
		if cluster, ok := l.view.Catalog.Cluster(name); ok {
			known.labels = cluster.Labels
		}
		l.clusters[name] = known
	}
	return known
}

func (l *lookout) isOnline(name string) bool {
	cluster, ok := l.view.Catalog.Cluster(name)
	if !ok {
		return false
	}
	isConnected, _ := l.view.Presence.presenceOf(cluster)
	return isConnected
}

// addConnected adds the services of a cluster that came or went since it was last seen.
func (l *lookout) addConnected(name string, again map[string]struct{}) {
	known, isKnown := l.clusters[name]
	if !isKnown {
		return
	}
	if now := l.isOnline(name); now != known.isOnline {
		known.isOnline = now
		maps.Copy(again, known.services)
	}
}

// addRelabelled adds the services of a cluster if it has other labels than it was last seen with.
func (l *lookout) addRelabelled(name string, again map[string]struct{}) {
	cluster, ok := l.view.Catalog.Cluster(name)
	known, isKnown := l.clusters[name]
	switch {
	case !ok && isKnown:
		maps.Copy(again, known.services)
		if len(known.services) == 0 {
			delete(l.clusters, name)
		}
		return
	case !ok, isKnown && maps.Equal(known.labels, cluster.Labels):
		return
	}
	l.cluster(name).labels = cluster.Labels
	_, services := l.view.Catalog.servicesOf(name)
	for _, service := range services {
		again[service.Name] = struct{}{}
	}
}

// addReadersOf adds the services that read a source of a repository if it holds something else.
func (l *lookout) addReadersOf(repository string, again map[string]struct{}) {
	for source := range l.sources.byRepository[repository] {
		l.addReaders(source, again)
	}
}

// addReaders adds the services that read a source if it holds something else than it was last seen to.
func (l *lookout) addReaders(source catalog.Source, again map[string]struct{}) {
	now := l.view.Resolution(source).Snapshot
	if last, isKnown := l.sources.held[source]; isKnown && equal(last, now) {
		return
	}
	l.sources.held[source] = now
	maps.Copy(again, l.sources.readers[source])
}

// lookAt reads one service. It adds to again the others that something concerns which has changed.
// It remembers the state of clusters and sources before it looks: changes in between are found
// later.
func (l *lookout) lookAt(path string, again map[string]struct{}) {
	l.forget(path)
	service, ok := l.view.Catalog.Service(path)
	if !ok {
		return
	}
	if l.clusters[service.Spec.Cluster] == nil || !l.isFirst {
		l.addRelabelled(service.Spec.Cluster, again)
		l.addConnected(service.Spec.Cluster, again)
	}
	cluster, ok := l.view.Catalog.Cluster(service.Spec.Cluster)
	if !ok {
		return
	}
	i := slices.IndexFunc(l.policies, func(p *catalog.RolloutPolicy) bool { return p.Covers(service, cluster.Labels) })
	if i < 0 {
		return
	}
	now := coverage{policy: l.policies[i].UID, cluster: cluster.Name, uid: service.UID, sources: l.sourcesOf(service)}
	for _, source := range now.sources {
		l.sources.readers.Add(source, path)
		l.sources.byRepository.Add(source.Repository, source)
		l.addReaders(source, again)
	}
	delete(again, path)
	l.cluster(cluster.Name).services[path] = struct{}{}
	seen := Rollouts{View: l.view}.see(service, cluster)
	now.isHeld = seen.Held.Release().Content != nil
	if l.covered[path] = now; now.isHeld {
		l.held++
	} else if service.Derived != nil {
		l.newcomers[path] = struct{}{}
	}
	of := l.groups[now.policy]
	if l.isFirst {
		of.members = append(of.members, seen)
		return
	}
	of.put[path] = seen
	delete(of.gone, service.UID)
}

// forget forgets what was seen of a service.
func (l *lookout) forget(path string) {
	known, ok := l.covered[path]
	if !ok {
		return
	}
	delete(l.covered, path)
	delete(l.newcomers, path)
	if known.isHeld {
		l.held--
	}
	for _, source := range known.sources {
		if l.sources.readers.Remove(source, path); len(l.sources.readers[source]) == 0 {
			delete(l.sources.held, source)
			l.sources.byRepository.Remove(source.Repository, source)
		}
	}
	delete(l.clusters[known.cluster].services, path)
	of := l.groups[known.policy]
	delete(of.put, path)
	of.gone[known.uid] = struct{}{}
}

// sourcesOf returns the sources of a service's own spec, and of the spec that it is held at.
func (l *lookout) sourcesOf(service *catalog.Service) []catalog.Source {
	var all []catalog.Source
	add := func(some []catalog.Source) {
		for _, source := range some {
			if normal := source.Normal(); !slices.Contains(all, normal) {
				all = append(all, normal)
			}
		}
	}
	add(service.Spec.Sources)
	if spec := l.view.admitted.of(service.UID).Release().Spec; spec != nil {
		add(spec.Sources)
	}
	return all
}

// sight returns the present view, and the changes of this look.
func (l *lookout) sight(isAll bool) drive.Sight {
	sight := drive.Sight{Policies: l.policies, Members: map[string][]drive.Seen{}, Changes: map[string]drive.Changes{}}
	for uid, of := range l.groups {
		changes := of.settle()
		if sight.Members[uid] = of.members; !isAll {
			sight.Changes[uid] = changes
		}
	}
	if l.view.admitted.count() == l.held {
		return sight
	}
	for _, known := range l.view.admitted.all() {
		if known.Content != nil && l.covered[known.Service].uid != known.ServiceUID {
			sight.Uncovered = append(sight.Uncovered, known)
		}
	}
	return sight
}

// settle takes what a look has changed into the members, and returns it.
func (g *group) settle() (changes drive.Changes) {
	if len(g.put)+len(g.gone) == 0 {
		return changes
	}
	find := func(path string) (int, bool) {
		return slices.BinarySearchFunc(g.members, path, func(s drive.Seen, path string) int { return cmp.Compare(s.Service.Name, path) })
	}
	var added []drive.Seen
	for path, seen := range g.put {
		i, isThere := find(path)
		switch {
		case !isThere:
			added = append(added, seen)
		case reflect.DeepEqual(g.members[i], seen):
			delete(g.put, path)
		default:
			g.members[i] = seen
		}
	}
	isGone := func(s drive.Seen) bool {
		_, isMissed := g.gone[s.Service.UID]
		return isMissed
	}
	if len(g.gone) > 0 {
		g.members = slices.DeleteFunc(g.members, isGone)
	}
	if len(added) > 0 {
		g.members = append(g.members, added...)
		slices.SortFunc(g.members, compareByPath)
	}
	for path := range g.put {
		if i, ok := find(path); ok {
			changes.Seen = append(changes.Seen, i)
		}
	}
	slices.Sort(changes.Seen)
	changes.Gone = slices.Sorted(maps.Keys(g.gone))
	clear(g.put)
	clear(g.gone)
	return changes
}

func compareByPath(a, b drive.Seen) int { return cmp.Compare(a.Service.Name, b.Service.Name) }
