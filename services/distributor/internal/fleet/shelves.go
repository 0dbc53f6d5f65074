// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"reflect"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// shelves are the objects of the catalog, each kind on its own. The catalog's lock guards what they hold.
type shelves struct {
	projects     *shelf[*catalog.Project]
	clusters     *shelf[*catalog.Cluster]
	repositories *shelf[*catalog.Repository]
	backends     *shelf[*catalog.ConfigBackend]
	sets         *shelf[*catalog.ConfigSet]
	// indexed are the services, which only the index has.
	indexed        *shelf[*catalog.Service]
	users          *shelf[*catalog.User]
	roles          *shelf[*catalog.Role]
	accessBindings *shelf[*catalog.AccessBinding]
	providers      *shelf[*catalog.IdentityProvider]
	rules          *shelf[*catalog.TrustRule]
	notifiers      *shelf[*catalog.Notifier]
	globals        *shelf[*catalog.GlobalService]
	policies       *shelf[*catalog.RolloutPolicy]
	fleetSources   *shelf[*catalog.FleetSource]
	imagePolicies  *shelf[*catalog.ImagePolicy]
	requests       *shelf[*catalog.AccessRequest]

	byKind map[catalog.Kind]keeper
	// inOrder are all of them in the order of catalog.Kinds.
	inOrder []keeper
}

// newShelves returns a shelf for each kind. What follows from its objects is said here, and nil says that nothing
// does. A plain kind needs a line only if something does, or if its objects are asked for by their type.
func newShelves(services *plan.Index) shelves {
	s := shelves{byKind: map[catalog.Kind]keeper{}}
	s.projects = keep(&s, catalog.KindProject, touchProject, putProject, removeProject,
		func(in *catalog.Changes) []*catalog.Project { return in.Projects })
	s.clusters = keep(&s, catalog.KindCluster, touchCluster, putCluster, removeCluster,
		func(in *catalog.Changes) []*catalog.Cluster { return in.Clusters })
	s.repositories = keep(&s, catalog.KindRepository, nil, nil, nil,
		func(in *catalog.Changes) []*catalog.Repository { return in.Repositories })
	s.backends = keep(&s, catalog.KindConfigBackend, nil, nil, nil,
		func(in *catalog.Changes) []*catalog.ConfigBackend { return in.Backends })
	s.sets = keep(&s, catalog.KindConfigSet, touchSet, nil, nil,
		func(in *catalog.Changes) []*catalog.ConfigSet { return in.ConfigSets })
	s.indexed = keep(&s, catalog.KindService, touchService, putService, removeService,
		func(in *catalog.Changes) []*catalog.Service { return in.Services })
	s.users = keep(&s, catalog.KindUser, nil, nil, removeUser,
		func(in *catalog.Changes) []*catalog.User { return in.Users })
	s.roles = keep(&s, catalog.KindRole, nil, nil, nil, plainOf[*catalog.Role])
	s.accessBindings = keep(&s, catalog.KindAccessBinding, nil, putBinding, removeBinding,
		func(in *catalog.Changes) []*catalog.AccessBinding { return in.Bindings })
	s.providers = keep(&s, catalog.KindIdentityProvider, nil, nil, removeProvider,
		func(in *catalog.Changes) []*catalog.IdentityProvider { return in.Providers })
	s.rules = keep(&s, catalog.KindTrustRule, nil, nil, nil, plainOf[*catalog.TrustRule])
	s.notifiers = keep(&s, catalog.KindNotifier, nil, nil, nil,
		func(in *catalog.Changes) []*catalog.Notifier { return in.Notifiers })
	s.globals = keep(&s, catalog.KindGlobalService, touchGlobal, nil, removeGlobal,
		func(in *catalog.Changes) []*catalog.GlobalService { return in.Globals })
	s.policies = keep(&s, catalog.KindRolloutPolicy, nil, putPolicy, removePolicy, plainOf[*catalog.RolloutPolicy])
	s.fleetSources = keep(&s, catalog.KindFleetSource, nil, nil, nil,
		func(in *catalog.Changes) []*catalog.FleetSource { return in.FleetSources })
	s.imagePolicies = keep(&s, catalog.KindImagePolicy, nil, nil, nil, plainOf[*catalog.ImagePolicy])
	s.requests = keep(&s, catalog.KindAccessRequest, nil, nil, nil, plainOf[*catalog.AccessRequest])
	s.indexed.stored = inIndex{services}
	s.clusters.counted, s.repositories.counted, s.indexed.counted = Totals{Clusters: 1}, Totals{Repositories: 1}, Totals{Services: 1}
	s.clusters.isQuiet = differsInPresence
	for _, kind := range catalog.Kinds() {
		if s.byKind[kind] == nil {
			keep(&s, kind, nil, nil, nil, plainOfKind(kind))
		}
	}
	s.inOrder = inOrder(s.byKind)
	return s
}

// plainOf returns the objects of one plain kind in a batch of changes.
func plainOf[O catalog.Plain](in *catalog.Changes) []O { return catalog.PlainOf[O](in.Plain) }

// plainOfKind is plainOf for a kind of which the view knows nothing else, not even its type.
func plainOfKind(kind catalog.Kind) func(*catalog.Changes) []catalog.Plain {
	return func(in *catalog.Changes) []catalog.Plain {
		return slices.DeleteFunc(slices.Clone(in.Plain), func(object catalog.Plain) bool { return object.Key().Kind != kind })
	}
}

// inOrder returns what a table has of the kinds, in the order of catalog.Kinds.
func inOrder[T any](byKind map[catalog.Kind]T) []T {
	var all []T
	for _, kind := range catalog.Kinds() {
		all = append(all, byKind[kind])
	}
	return all
}

// ofKind makes a function of objects of one kind one of objects of any kind. It is called with none of another kind.
func ofKind[A any, O catalog.Object, R any](do func(A, O) R) func(A, catalog.Object) R {
	return func(a A, object catalog.Object) R {
		o, _ := object.(O)
		return do(a, o)
	}
}

// keep adds the shelf of a kind.
func keep[O catalog.Object](
	s *shelves, kind catalog.Kind,
	touch func(c *contents, object O, isGone bool, t *touched),
	put func(c *contents, last, next O, s *changeSet), remove func(c *contents, last O, s *changeSet),
	changed func(*catalog.Changes) []O,
) *shelf[O] {
	objects := byName[O]{}
	k := &shelf[O]{
		index: slices.Index(catalog.Kinds(), kind), isInProject: kind.InProject(), stored: objects, objects: objects,
		touch: touch, put: put, remove: remove, changed: changed,
	}
	s.byKind[kind] = k
	return k
}

// keeper is a shelf of any kind.
type keeper interface {
	// get returns the object of that name, or nil.
	get(name string) catalog.Object
	sorted() *nameSet
	// place returns the index of the kind in catalog.Kinds.
	place() int
	// putLocked takes over those objects of a batch of changes that are of the kind.
	putLocked(c *contents, changes *catalog.Changes, s *changeSet)
	// removeLocked removes a deleted object, unless its name belongs to another object by now.
	removeLocked(c *contents, stone catalog.Tombstone, s *changeSet)
	// touchLocked notes what the objects of a batch that are of the kind mean for derived services, and touchGoneLocked
	// what a deleted one does.
	touchLocked(c *contents, changes *catalog.Changes, t *touched)
	touchGoneLocked(c *contents, stone catalog.Tombstone, t *touched)
}

// shelf keeps the objects of one kind, and knows what follows from them.
type shelf[O catalog.Object] struct {
	index       int
	isInProject bool
	// stored are the objects, and objects the same by name, except for services.
	stored  stored[O]
	objects byName[O]
	// names are in the order of listings.
	names nameSet
	// counted is one object's part of the totals of its project.
	counted Totals
	// changed returns the objects of the kind in a batch of changes.
	changed func(*catalog.Changes) []O
	// touch notes what an object, which changed or is gone, means for derived services.
	touch func(c *contents, object O, isGone bool, t *touched)
	// put and remove do what follows from an object that is about to be stored, in the place of the last one or of nil,
	// or to be removed.
	put    func(c *contents, last, next O, s *changeSet)
	remove func(c *contents, last O, s *changeSet)
	// isQuiet reports whether watchers are not notified of a change. Nil: they are of all.
	isQuiet func(last, next O) bool
}

// stored is where the objects of a kind are.
type stored[O catalog.Object] interface {
	get(name string) (O, bool)
	Put(object O)
	Remove(name string)
}

// byName are objects by their names.
type byName[O catalog.Object] map[string]O

func (m byName[O]) get(name string) (O, bool) { o, ok := m[name]; return o, ok }

// Put implements stored.
func (m byName[O]) Put(object O) { m[object.Meta().Name] = object }

// Remove implements stored.
func (m byName[O]) Remove(name string) { delete(m, name) }

// inIndex are the services of an index.
type inIndex struct{ *plan.Index }

func (x inIndex) get(name string) (*catalog.Service, bool) {
	service := x.Service(name)
	return service, service != nil
}

func (k *shelf[O]) get(name string) catalog.Object {
	if object, ok := k.stored.get(name); ok {
		return object
	}
	return nil
}

func (k *shelf[O]) sorted() *nameSet { return &k.names }
func (k *shelf[O]) place() int       { return k.index }

// all returns the objects, by name.
func (k *shelf[O]) all() []O {
	all := slices.Grow([]O(nil), len(k.objects))
	for _, name := range k.names.all() {
		all = append(all, k.objects[name])
	}
	return all
}

// unsorted returns the objects in no order.
func (k *shelf[O]) unsorted() []O {
	all := slices.Grow([]O(nil), len(k.objects))
	for _, object := range k.objects {
		all = append(all, object)
	}
	return all
}

// deleted returns the object that a tombstone is of, if it is there.
func (k *shelf[O]) deleted(stone catalog.Tombstone) (last O, ok bool) {
	last, ok = k.stored.get(stone.Key.Name)
	return last, ok && last.Meta().UID == stone.UID
}

func (k *shelf[O]) putLocked(c *contents, changes *catalog.Changes, s *changeSet) {
	for _, next := range k.changed(changes) {
		key := next.Key()
		last, isKnown := k.stored.get(key.Name)
		if !isKnown {
			k.come(c, key.Name, s)
		}
		if !isKnown || k.isQuiet == nil || !k.isQuiet(last, next) {
			s.addObject(key)
		}
		if k.put != nil {
			k.put(c, last, next, s)
		}
		k.stored.Put(next)
	}
}

func (k *shelf[O]) removeLocked(c *contents, stone catalog.Tombstone, s *changeSet) {
	last, ok := k.deleted(stone)
	if !ok {
		return
	}
	if k.remove != nil {
		k.remove(c, last, s)
	}
	s.addObject(stone.Key)
	k.stored.Remove(stone.Key.Name)
	k.leave(c, stone.Key.Name, s)
}

// come adds the name of an object that is stored.
func (k *shelf[O]) come(c *contents, name string, s *changeSet) {
	k.names.add(name)
	k.count(c, name, 1, s)
}

// leave removes the name of an object that is no longer stored.
func (k *shelf[O]) leave(c *contents, name string, s *changeSet) {
	k.names.remove(name)
	k.count(c, name, -1, s)
}

// count counts an object that came to its project, or left it.
func (k *shelf[O]) count(c *contents, name string, n int, s *changeSet) {
	if !k.isInProject {
		return
	}
	project := objectname.Project(name)
	held := c.held[project].plus(k.counted, n)
	if c.held[project] = held; held == (Totals{}) {
		delete(c.held, project)
	}
	s.addObject(catalog.Key{Kind: catalog.KindProject, Name: project})
}

func (k *shelf[O]) touchLocked(c *contents, changes *catalog.Changes, t *touched) {
	if k.touch == nil {
		return
	}
	for _, next := range k.changed(changes) {
		k.touch(c, next, false, t)
	}
}

func (k *shelf[O]) touchGoneLocked(c *contents, stone catalog.Tombstone, t *touched) {
	if k.touch == nil {
		return
	}
	if last, ok := k.deleted(stone); ok {
		k.touch(c, last, true, t)
	}
}

func putCluster(c *contents, last, next *catalog.Cluster, s *changeSet) {
	if last == nil {
		return
	}
	addCluster(s, last, next)
	if !maps.Equal(last.Labels, next.Labels) || !maps.Equal(last.Annotations, next.Annotations) {
		s.addGuests(c.services, next.Name)
	}
	if !maps.Equal(last.Labels, next.Labels) {
		c.labelChanges++
	}
	addRequirersLocked(c, s, last, next)
}

func removeCluster(c *contents, last *catalog.Cluster, s *changeSet) {
	s.clusters[last.Name] = struct{}{}
	s.endedClusters = append(s.endedClusters, last.UID)
	dropDerivedLocked(c, c.services.Services(last.Name), s)
	endDeparturesLocked(c.derived, last.UID)
	for global := range c.globals.objects {
		unset(c.derived.conflicts, global, last.Name)
		unset(c.derived.forbidden, global, last.Name)
	}
}

// addCluster adds what a changed cluster means for its agent.
func addCluster(s *changeSet, last, next *catalog.Cluster) {
	if !last.Spec.Settings.Equal(next.Spec.Settings) || !maps.Equal(last.Labels, next.Labels) || !maps.Equal(last.Annotations, next.Annotations) ||
		!last.RemovalsHeldSince.Equal(next.RemovalsHeldSince) {
		s.addPlan(next.Name)
	}
	if last.Agent.KeyGeneration != next.Agent.KeyGeneration {
		// Streams that were opened with the old key check whether they may continue.
		s.clusters[next.Name] = struct{}{}
	}
}

// addRequirersLocked adds the cluster's services that its agent could not carry out and now can, or
// the other way round, and those whose status names a version that the agent no longer has, or the
// want of a report that has come.
func addRequirersLocked(c *contents, s *changeSet, last, next *catalog.Cluster) {
	before, after := last.Agent.Report, next.Agent.Report
	isFirst := (last.Agent.Instance == "") != (next.Agent.Instance == "")
	if !isFirst && slices.Equal(before.Capabilities, after.Capabilities) && before.AgentVersion == after.AgentVersion {
		return
	}
	for _, service := range c.services.In(next.Name) {
		if words := c.specFor(service).Requires(); len(last.Agent.Lacks(words))+len(next.Agent.Lacks(words)) > 0 {
			s.addService(service)
		}
	}
}

// differsInPresence reports whether two states of a cluster differ at most in when its agent was last heard from. That
// changes every minute, which no watcher wants to hear of.
func differsInPresence(last, next *catalog.Cluster) bool {
	a, b := *last, *next
	b.Agent.LastSeenAt, b.Agent.ConnectedUntil, b.Agent.Sequence = a.Agent.LastSeenAt, a.Agent.ConnectedUntil, a.Agent.Sequence
	return reflect.DeepEqual(a, b)
}

func putProject(_ *contents, last, next *catalog.Project, s *changeSet) {
	if !reflect.DeepEqual(last.AgentLimits(), next.AgentLimits()) || last != nil && !maps.Equal(last.Labels, next.Labels) {
		s.addReach(next.Name, func(*catalog.Service, *catalog.Cluster) bool { return true })
	}
	if !reflect.DeepEqual(last.AnnotationShares(), next.AnnotationShares()) {
		s.hosts[next.Name] = struct{}{}
	}
}

// removeProject runs after everything in the project has gone, except with a store that lost its
// memory.
func removeProject(_ *contents, last *catalog.Project, s *changeSet) {
	s.addReach(last.Name, func(*catalog.Service, *catalog.Cluster) bool { return true })
}

func removeGlobal(c *contents, last *catalog.GlobalService, s *changeSet) {
	dropDerivedLocked(c, slices.Collect(c.indexed.names.inClusters(last.Name)), s)
	delete(c.derived.jobs, last.Name)
	delete(c.derived.late, last.Name)
	delete(c.derived.globals, last.Name)
	delete(c.derived.conflicts, last.Name)
	delete(c.derived.forbidden, last.Name)
	delete(c.derived.departures, last.UID)
	c.derived.variants.end(last.UID)
}

func putService(c *contents, last, next *catalog.Service, s *changeSet) {
	s.addSources(next, c.services.Wanted)
	if last != nil {
		s.addService(last)
		s.addSources(last, c.services.Wanted)
		if last.UID != next.UID {
			s.endedServices = append(s.endedServices, last.UID)
		}
	}
	s.addService(next)
}

func removeService(c *contents, last *catalog.Service, s *changeSet) {
	s.addSources(last, c.services.Wanted)
	s.addService(last)
	s.endedServices = append(s.endedServices, last.UID)
}

// removeUser forgets the user's tokens. The store deleted them with the user, without tombstones of their own.
func removeUser(c *contents, last *catalog.User, _ *changeSet) {
	maps.DeleteFunc(c.tokens, func(_ string, token catalog.Token) bool { return token.UserUID == last.UID })
}

// removeProvider forgets the sessions that began with a provider. The store deleted them with it, without tombstones
// of their own.
func removeProvider(c *contents, last *catalog.IdentityProvider, _ *changeSet) {
	maps.DeleteFunc(c.sessions, func(_ string, session catalog.Session) bool { return session.ProviderUID == last.UID })
}

func putBinding(c *contents, last, next *catalog.AccessBinding, _ *changeSet) {
	if last != nil {
		c.bindings.remove(last)
	}
	c.bindings.put(next)
}

func removeBinding(c *contents, last *catalog.AccessBinding, _ *changeSet) { c.bindings.remove(last) }

func putPolicy(_ *contents, last, next *catalog.RolloutPolicy, s *changeSet) {
	s.addCovered(last, next)
}

func removePolicy(_ *contents, last *catalog.RolloutPolicy, s *changeSet) { s.addCovered(last, nil) }
