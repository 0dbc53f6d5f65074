// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// AtOnce bounds the derivations with a batch of changes, so that an edit and the services derived
// from it are seen together. The Deriver does the rest after the edit. The zero value stands for
// the bounds of a hub.
type AtOnce struct {
	// Pairs are pairs of a global service and a cluster. A thousand take some 5 ms of the catalog's
	// lock to be put into it.
	Pairs int
	// Units are the cost of all expressions, in CEL's own unit. They are evaluated without that lock.
	// The next edit waits for them, at most a second.
	Units uint64
}

func (a AtOnce) orDefault() AtOnce {
	if a == (AtOnce{}) {
		return AtOnce{Pairs: 2_000, Units: 400_000}
	}
	return a
}

// everything is for a batch whose derived services agents have, although the view has lost them.
func everything() AtOnce { return AtOnce{Pairs: math.MaxInt, Units: math.MaxUint64} }

// maxParsed bounds the expressions that are compiled with a batch of changes, in bytes. They take some
// half a second.
const maxParsed = 256 << 10

// batch is the effect of a batch of changes on derived services, as far as that is decided before
// the changes are applied. It is made while nothing else changes clusters, projects and global
// services, because its owner holds View.refreshing.
type batch struct {
	basis
	// works are by the path of the global service.
	works map[string]*work
}

// basis is a state of the catalog from which services are derived. It does not change.
type basis struct {
	clusters map[string]*catalog.Cluster
	projects map[string]*catalog.Project
	globals  map[string]*catalog.GlobalService
	// departures are by the uid of the global service.
	departures map[string]catalog.Departures
	// sets are of configuration, and version is the version of derive.Sets.
	sets    map[string]*catalog.ConfigSet
	version uint64
	// seen are the clusters that were derived for. Nil keeps none.
	seen factsBook
}

// factsKey is a cluster as a project sees it. The project is empty for the cluster's own.
type factsKey struct{ cluster, project string }

// composing returns the layers of configurations in this state. Global services keep holding it, so
// it holds nothing else of the state.
func (b *basis) composing() derive.Sets {
	projects, sets := b.projects, b.sets
	return derive.Sets{
		Version: b.version,
		Project: func(name string) *catalog.Project { return projects[name] },
		Set:     func(path string) *catalog.ConfigSet { return sets[path] },
	}
}

// work is one global service with the clusters for which it is to be derived.
type work struct {
	scope

	global *catalog.GlobalService
	// isNew is true if the batch has the global service itself.
	isNew bool
	// compiled is nil while it is not compiled. It is not used while the deriver has it.
	compiled  *derive.Global
	isDeriver bool
	// verdicts are for the whole scope, or nil.
	verdicts []verdict
}

// scope is a set of clusters.
type scope struct {
	isAll bool
	names map[string]struct{}
}

func (s *scope) add(cluster string) {
	if s.isAll {
		return
	}
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	s.names[cluster] = struct{}{}
}

func (s *scope) join(other scope) {
	s.isAll = s.isAll || other.isAll
	for name := range other.names {
		s.add(name)
	}
}

func (s *scope) has(cluster string) bool {
	_, ok := s.names[cluster]
	return ok || s.isAll
}

func (s *scope) isEmpty() bool { return !s.isAll && len(s.names) == 0 }

// among returns those clusters of a state that are in the scope, in no order.
func (s *scope) among(clusters map[string]*catalog.Cluster) []*catalog.Cluster {
	if s.isAll {
		return slices.Collect(maps.Values(clusters))
	}
	found := make([]*catalog.Cluster, 0, len(s.names))
	for name := range s.names {
		if cluster, ok := clusters[name]; ok {
			found = append(found, cluster)
		}
	}
	return found
}

// touched are the objects of a batch that matter for derived services, before and after it. Objects that
// come or go have nil in the other place.
type touched struct {
	clusters []string
	services []string
	globals  []string
	projects map[string]*catalog.Project // before the batch
	sets     map[string]struct{}
	// variants are the ids of variants with another stored content, and variantGlobals the uids of
	// their global services.
	variants       map[string]bool
	variantGlobals map[string]bool
}

func (t *touched) isEmpty() bool {
	return len(t.clusters)+len(t.services)+len(t.globals)+len(t.projects)+len(t.sets)+len(t.variants) == 0
}

// newBatch returns what a batch of changes means for derived services, with nothing decided yet.
func newBatch(c *Catalog, changes *catalog.Changes) *batch {
	c.mu.RLock()
	t := touchedLocked(c.contents, changes)
	if t.isEmpty() {
		c.mu.RUnlock()
		return &batch{}
	}
	b := &batch{basis: basisLocked(c.contents), works: map[string]*work{}}
	if len(t.projects)+len(t.sets) > 0 {
		b.version++
	}
	b.apply(changes)
	for path, global := range b.globals {
		_, hasJob := c.contents.derived.jobs[path]
		_, isLate := c.contents.derived.late[path]
		b.works[path] = &work{global: global, compiled: c.contents.derived.globals[path], isDeriver: hasJob || isLate}
	}
	markVariantsLocked(c.contents, b.works, t)
	c.mu.RUnlock()
	b.mark(t)
	b.markConfigs(t)
	maps.DeleteFunc(b.works, func(_ string, w *work) bool { return w.isEmpty() })
	return b
}

// touchedLocked returns the objects of a batch that matter for derived services.
func touchedLocked(c *contents, changes *catalog.Changes) touched {
	t := touched{
		projects: map[string]*catalog.Project{}, sets: map[string]struct{}{}, variants: map[string]bool{}, variantGlobals: map[string]bool{},
	}
	for _, state := range changes.Variants {
		t.variants[state.ID], t.variantGlobals[state.GlobalUID] = true, true
	}
	for _, stone := range changes.Deleted {
		if kind, ok := c.byKind[stone.Key.Kind]; ok {
			kind.touchGoneLocked(c, stone, &t)
		}
	}
	for _, kind := range c.inOrder {
		kind.touchLocked(c, changes, &t)
	}
	for _, request := range changes.Requests {
		if c.derived.departures[request.GlobalUID][request.ServiceUID] != request.Departure {
			t.services = append(t.services, request.Service)
		}
	}
	t.services = slices.DeleteFunc(t.services, func(path string) bool {
		local, _ := objectname.SplitService(path)
		return c.globals.objects[local] == nil && !slices.Contains(t.globals, local)
	})
	return t
}

// touchProject notes the project as it is before the batch.
func touchProject(c *contents, project *catalog.Project, _ bool, t *touched) {
	t.projects[project.Name] = c.projects.objects[project.Name]
}

// touchCluster notes a cluster that is new, or of which expressions may see a difference. Services
// of a former one end with it.
func touchCluster(c *contents, next *catalog.Cluster, isGone bool, t *touched) {
	last := c.clusters.objects[next.Name]
	if !isGone && (last == nil || last.UID != next.UID || factsDiffer(last, next)) {
		t.clusters = append(t.clusters, next.Name)
	}
}

func touchService(_ *contents, service *catalog.Service, _ bool, t *touched) {
	t.services = append(t.services, service.Name)
}

func touchSet(_ *contents, set *catalog.ConfigSet, _ bool, t *touched) { t.sets[set.Name] = struct{}{} }

func touchGlobal(_ *contents, global *catalog.GlobalService, isGone bool, t *touched) {
	if !isGone {
		t.globals = append(t.globals, global.Name)
	}
}

// markVariantsLocked adds to each work the clusters whose services have a variant that is another one now.
func markVariantsLocked(c *contents, works map[string]*work, t touched) {
	for path, w := range works {
		if !t.variantGlobals[w.global.UID] {
			continue
		}
		for member := range c.indexed.names.inClusters(path) {
			service := c.services.Service(member)
			if variant := variantOf(service); variant != nil && t.variants[variant.ID] {
				w.add(service.Spec.Cluster)
			}
		}
	}
}

// factsDiffer reports whether expressions may see a difference between two states of a cluster.
func factsDiffer(a, b *catalog.Cluster) bool {
	return !maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) || !catalog.SameFacts(a.Agent.Report, b.Agent.Report)
}

// basisLocked returns the present state.
func basisLocked(c *contents) basis {
	return basis{
		clusters: maps.Clone(c.clusters.objects), projects: maps.Clone(c.projects.objects), globals: maps.Clone(c.globals.objects),
		departures: maps.Clone(c.derived.departures), seen: factsBook{}, sets: maps.Clone(c.sets.objects), version: c.derived.version,
	}
}

// apply makes the state the one after the changes.
func (b *basis) apply(changes *catalog.Changes) {
	change(b.projects, changes.Deleted, changes.Projects)
	if standing := catalog.DefaultProject(); b.projects[standing.Name] == nil {
		b.projects[standing.Name] = standing
	}
	change(b.clusters, changes.Deleted, changes.Clusters)
	change(b.globals, changes.Deleted, changes.Globals)
	change(b.sets, changes.Deleted, changes.ConfigSets)
	for _, request := range changes.Requests {
		if b.departures[request.GlobalUID][request.ServiceUID] == request.Departure {
			continue
		}
		departures := maps.Clone(b.departures[request.GlobalUID])
		if departures == nil {
			departures = catalog.Departures{}
		}
		departures[request.ServiceUID] = request.Departure
		b.departures[request.GlobalUID] = departures
	}
}

// isHeld reports whether a cluster keeps the service of a global service although its condition does not
// hold there.
func (b *basis) isHeld(global *catalog.GlobalService, cluster *catalog.Cluster) bool {
	departures := b.departures[global.UID]
	return len(departures) > 0 && departures[catalog.DerivedUID(global.UID, cluster.UID)].State == catalog.DepartureHeld
}

// change removes the deleted objects of a kind, and puts others.
func change[O catalog.Object](objects map[string]O, deleted []catalog.Tombstone, put []O) {
	for _, stone := range deleted {
		if object, ok := objects[stone.Key.Name]; ok && object.Key().Kind == stone.Key.Kind && object.Meta().UID == stone.UID {
			delete(objects, stone.Key.Name)
		}
	}
	for _, next := range put {
		objects[next.Meta().Name] = next
	}
}

// mark adds to each work the clusters for which the batch may have changed its verdicts.
func (b *batch) mark(t touched) {
	for _, path := range t.globals {
		b.works[path].isNew, b.works[path].isAll = true, true
	}
	for name, last := range t.projects {
		b.markProject(last, b.projects[name], name)
	}
	for _, w := range b.works {
		for _, name := range t.clusters {
			w.add(name)
		}
	}
	for _, path := range t.services {
		local, cluster := objectname.SplitService(path)
		if w := b.works[local]; w != nil {
			w.add(cluster)
		}
	}
}

// markProject adds the effects of the change of a project. Either may be nil. Its own global
// services may use other clusters, or have other limits; global services of other projects may use
// other clusters of it.
func (b *batch) markProject(last, next *catalog.Project, name string) {
	isOwn := last == nil || next == nil || !maps.Equal(last.Labels, next.Labels) || !reflect.DeepEqual(last.Spec.Limits, next.Spec.Limits)
	isShared := last == nil || next == nil || !reflect.DeepEqual(last.Spec.Shares, next.Spec.Shares)
	// The answer is one for all global services of a project.
	changed := map[string][]string{}
	for path, w := range b.works {
		project := objectname.Project(path)
		if project == name {
			w.isAll = w.isAll || isOwn
			continue
		}
		if !isShared {
			continue
		}
		clusters, isKnown := changed[project]
		if !isKnown {
			clusters = b.usesChanged(b.projects[project], last, next, name)
			changed[project] = clusters
		}
		for _, cluster := range clusters {
			w.add(cluster)
		}
	}
}

// markConfigs adds the global services whose configurations may be composed otherwise: the ones
// that looked for a set that the batch has, or whose project lists other sets, or for which other
// sets are shared.
func (b *batch) markConfigs(t touched) {
	isListed, isShared := map[string]bool{}, map[string]bool{}
	for name, last := range t.projects {
		next := b.projects[name]
		isListed[name] = last == nil || next == nil || !slices.Equal(last.Spec.ConfigSets, next.Spec.ConfigSets)
		isShared[name] = last == nil || next == nil || !reflect.DeepEqual(last.Spec.Shares, next.Spec.Shares)
	}
	isTouched := func(path string) bool {
		_, isChanged := t.sets[path]
		return isChanged || isShared[objectname.Project(path)]
	}
	for path, w := range b.works {
		if isListed[objectname.Project(path)] || b.looks(w, isTouched) {
			w.isAll = true
		}
	}
}

// looks reports whether services of a global service look for a set of which that is true, as far as it is
// known.
func (b *batch) looks(w *work, isTouched func(path string) bool) bool {
	if !w.isDeriver {
		return w.compiled != nil && w.compiled.Looks(isTouched)
	}
	// The deriver has it, and no other goroutine may ask.
	for path := range b.sets {
		if isTouched(path) {
			own := b.projects[objectname.Project(w.global.Name)]
			return w.global.HasConfig() || own != nil && len(own.Spec.ConfigSets) > 0
		}
	}
	return false
}

// usesChanged returns the clusters of a project that another project may use either before or after a
// change of their owner, or of which it knows other annotations.
func (b *batch) usesChanged(by, last, next *catalog.Project, owner string) []string {
	var changed []string
	for name, cluster := range b.clusters {
		if by != nil && objectname.Project(name) == owner && (by.MayUseCluster(last, cluster) != by.MayUseCluster(next, cluster) ||
			!cluster.IsSeenAlike(by, last, by, next)) {
			changed = append(changed, name)
		}
	}
	return changed
}

// decide reaches the verdicts that are cheap enough to be applied with the batch: of a global
// service either all, or none.
func (b *batch) decide(ctx context.Context, limits AtOnce) {
	ctx = expression.WithBudget(context.WithoutCancel(ctx), limits.Units)
	pairs, parsed := limits.Pairs, maxParsed
	if limits == everything() {
		parsed = math.MaxInt
	}
	type item struct {
		*work

		clusters []*catalog.Cluster
	}
	var items []item
	for _, w := range b.works {
		if w.isNew || !w.isDeriver && w.compiled != nil {
			items = append(items, item{w, w.among(b.clusters)})
		}
	}
	slices.SortFunc(items, func(a, z item) int {
		return cmp.Or(cmp.Compare(len(a.clusters), len(z.clusters)), cmp.Compare(a.global.Name, z.global.Name))
	})
	for _, i := range items {
		if len(i.clusters) > pairs || parsed <= 0 || expression.IsSpent(ctx) {
			continue
		}
		pairs -= len(i.clusters)
		parsed -= i.decide(ctx, &b.basis, i.clusters, parsed)
	}
}

// decide reaches the verdicts of one work, if the context's budget and the bytes that may be compiled
// are enough. It returns the bytes that were compiled.
func (w *work) decide(ctx context.Context, on *basis, clusters []*catalog.Cluster, mayParse int) (parsed int) {
	before := 0
	switch {
	case !w.isNew:
		before = w.compiled.Parsed()
	case derive.Conditions(w.global) > mayParse:
		return 0
	default:
		var err error
		if w.compiled, err = derive.Compile(w.global); err != nil {
			return 0 // the deriver comes to the same end
		}
	}
	verdicts := make([]verdict, 0, len(clusters))
	for _, cluster := range clusters {
		v := on.verdict(ctx, w.compiled, cluster)
		if parsed = w.compiled.Parsed() - before; parsed > mayParse || expression.IsSpent(ctx) {
			return parsed
		}
		verdicts = append(verdicts, v)
	}
	w.verdicts = verdicts
	return parsed
}

// verdict derives one global service for one cluster.
func (b *basis) verdict(ctx context.Context, g *derive.Global, cluster *catalog.Cluster) verdict {
	own, owner := b.projects[objectname.Project(g.Spec().Name)], b.projects[objectname.Project(cluster.Name)]
	facts := b.factsOf(cluster, g.Spec().Name)
	v := verdict{cluster: cluster}
	var how string
	how, v.isSelected, v.err = g.Matches(ctx, facts)
	if v.err == nil && !v.isSelected && b.isHeld(g.Spec(), cluster) {
		how, v.isSelected = derive.Held(g.Spec(), cluster)
	}
	if v.err == nil && v.isSelected && own != nil && own.MayUseCluster(owner, cluster) {
		g.Use(b.composing())
		v.derived, v.err = g.Derive(ctx, facts, how)
	}
	return v
}

// factsOf returns a cluster as expressions of a global service see it.
func (b *basis) factsOf(cluster *catalog.Cluster, global string) *derive.Cluster {
	project, owner := objectname.Project(global), objectname.Project(cluster.Name)
	key := factsKey{cluster: cluster.Name}
	if project != owner {
		key.project = project
	}
	return b.seen.of(key, factsOfCluster{cluster: cluster, own: b.projects[project], owner: b.projects[owner]})
}

// maxFacts bounds the clusters of a factsBook. Each takes about a kilobyte.
const maxFacts = 1 << 15

// factsBook are clusters as expressions see them, which global services share. One goroutine at a time
// uses it.
type factsBook map[factsKey]factsOfCluster

// factsOfCluster is a cluster as the project own sees it, which may use clusters of the project
// owner. Objects are replaced and never changed, so the same objects give the same result.
type factsOfCluster struct {
	cluster    *catalog.Cluster
	own, owner *catalog.Project
	facts      *derive.Cluster
}

func (s factsBook) of(key factsKey, wanted factsOfCluster) *derive.Cluster {
	known := s[key]
	wanted.facts = known.facts
	if wanted == known && known.facts != nil {
		return known.facts
	}
	wanted.facts = derive.ClusterFor(wanted.cluster, wanted.own, wanted.owner)
	if len(s) >= maxFacts {
		clear(s)
	}
	if s != nil {
		s[key] = wanted
	}
	return wanted.facts
}

// putBatchLocked applies the verdicts of a batch, and leaves the rest to the deriver. isFirst is true if this
// replica knew nothing of the catalog before.
func putBatchLocked(c *contents, b *batch, isFirst bool, s *changeSet) {
	d := c.derived
	d.version = max(d.version, b.version)
	for path, w := range b.works {
		isUnknown := isFirst || isUnknownLocked(c.derived, path)
		if w.isNew {
			delete(d.jobs, path)
			delete(d.late, path)
			d.globals[path] = w.compiled
		}
		j := d.jobs[path]
		switch {
		case w.verdicts != nil:
			for _, v := range w.verdicts {
				putVerdictLocked(c, w.global, v, isUnknown, s)
			}
			continue
		case j == nil:
			s.addObject(w.global.Key())
			j = &job{global: w.global, isFirst: isUnknown}
			d.jobs[path] = j
		case j.isSettled:
			j.isSettled = !w.isAll
			for name := range w.names {
				if cluster := b.clusters[name]; cluster != nil {
					putWaitingLocked(c, w.global, cluster, pending(), s)
				}
			}
		}
		j.join(w.scope)
	}
	settleFirstLocked(c.derived)
}
