// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/authz"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// Catalog is this replica's copy of the catalog. A batch of changes is applied whole, so each read
// is of one revision: nobody reaches a cluster by a binding that was deleted before the cluster was
// created. It is safe for concurrent use. What it returns is shared and must not be changed.
type Catalog struct {
	mu       sync.RWMutex
	revision int64
	// objects are by kind and name, except for services, which only the index has.
	objects  map[catalog.Kind]map[string]catalog.Object
	services *plan.Index
	bindings *bindingIndex
	// held counts the objects of each project.
	held map[string]Totals
	// tokens are by id. They are no objects.
	tokens map[string]catalog.Token
	// sessions are by id. They are no objects. Some may have ended.
	sessions map[string]catalog.Session
	// labelChanges counts the times that a cluster was given other labels.
	labelChanges uint64
	// names are those of each kind, in the order of listings.
	names map[catalog.Kind]*nameSet
	// derived are what global services stand for.
	derived *derivations
	// specFor returns the spec that a service is planned with. It takes no lock that comes before mu.
	specFor func(*catalog.Service) catalog.ServiceSpec
}

func newCatalog() *Catalog {
	standing := catalog.DefaultProject()
	c := &Catalog{
		objects: map[catalog.Kind]map[string]catalog.Object{
			catalog.KindCluster: {}, catalog.KindRepository: {}, catalog.KindUser: {}, catalog.KindAccessBinding: {}, catalog.KindRole: {},
			catalog.KindProject: {standing.Name: standing}, catalog.KindIdentityProvider: {}, catalog.KindTrustRule: {},
			catalog.KindConfigBackend: {}, catalog.KindNotifier: {}, catalog.KindConfigSet: {}, catalog.KindGlobalService: {}, catalog.KindRolloutPolicy: {}, catalog.KindFleetSource: {},
		},
		services: plan.NewIndex(), bindings: newBindingIndex(), held: map[string]Totals{},
		tokens: map[string]catalog.Token{}, sessions: map[string]catalog.Session{}, names: map[catalog.Kind]*nameSet{},
		derived: newDerivations(),
		specFor: func(service *catalog.Service) catalog.ServiceSpec { return service.Spec },
	}
	for _, kind := range catalog.Kinds() {
		c.names[kind] = &nameSet{}
	}
	c.names[catalog.KindProject].add(standing.Name)
	return c
}

// Revision returns the revision of the catalog that the copy shows.
func (c *Catalog) Revision() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// LabelChanges returns a number that grows whenever a cluster is given other labels, which bindings may
// select.
func (c *Catalog) LabelChanges() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.labelChanges
}

// merge applies a batch of changes to the copy, with what they mean for derived services, and returns what
// it touches. isFirst is true if the copy was empty.
func (c *Catalog) merge(changes catalog.Changes, derived *batch, isFirst bool) *changeSet {
	s := newChangeSet()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stone := range changes.Deleted {
		c.removeLocked(stone, s)
	}
	putLocked(c, changes.Projects, s)
	putLocked(c, changes.Clusters, s)
	putLocked(c, changes.Repositories, s)
	putLocked(c, changes.Services, s)
	putLocked(c, changes.Users, s)
	putLocked(c, changes.Bindings, s)
	putLocked(c, changes.Providers, s)
	putLocked(c, changes.Rules, s)
	putLocked(c, changes.Notifiers, s)
	putLocked(c, changes.ConfigSets, s)
	putLocked(c, changes.Policies, s)
	putLocked(c, changes.FleetSources, s)
	putLocked(c, changes.Roles, s)
	putLocked(c, changes.Backends, s)
	putLocked(c, changes.Globals, s)
	c.derived.variants.put(changes.Variants)
	requestLocked(c, changes.Requests, s)
	putBatchLocked(c, derived, isFirst, s)
	for _, token := range changes.Tokens {
		c.tokens[token.ID] = token
	}
	c.putSessionsLocked(changes.Sessions)
	c.revision = changes.Revision
	return s
}

// removeLocked removes a deleted object, unless its name belongs to another object by now.
func (c *Catalog) removeLocked(stone catalog.Tombstone, s *changeSet) {
	if stone.Key.Kind == catalog.KindToken {
		delete(c.tokens, stone.Key.Name)
		return
	}
	if stone.Key.Kind == catalog.KindSession {
		delete(c.sessions, stone.Key.Name)
		return
	}
	object := c.objectLocked(stone.Key)
	if object == nil || object.Meta().UID != stone.UID {
		return
	}
	delete(c.objects[stone.Key.Kind], stone.Key.Name)
	c.names[stone.Key.Kind].remove(stone.Key.Name)
	s.addObject(stone.Key)
	c.countLocked(stone.Key, -1, s)
	switch o := object.(type) {
	case *catalog.Cluster:
		s.clusters[o.Name] = struct{}{}
		s.endedClusters = append(s.endedClusters, o.UID)
		dropDerivedLocked(c, c.services.Services(o.Name), s)
		endDeparturesLocked(c.derived, o.UID)
		for global := range c.objects[catalog.KindGlobalService] {
			unset(c.derived.conflicts, global, o.Name)
			unset(c.derived.forbidden, global, o.Name)
		}
	case *catalog.GlobalService:
		dropDerivedLocked(c, slices.Collect(c.names[catalog.KindService].inClusters(o.Name)), s)
		delete(c.derived.jobs, o.Name)
		delete(c.derived.late, o.Name)
		delete(c.derived.globals, o.Name)
		delete(c.derived.conflicts, o.Name)
		delete(c.derived.forbidden, o.Name)
		delete(c.derived.departures, o.UID)
		c.derived.variants.end(o.UID)
	case *catalog.Service:
		s.addSources(o, c.services.Wanted)
		c.services.Remove(o.Name)
		s.addService(o)
		s.endedServices = append(s.endedServices, o.UID)
	case *catalog.User:
		// The store deleted the user's tokens with the user, without tombstones of their own.
		maps.DeleteFunc(c.tokens, func(_ string, token catalog.Token) bool { return token.UserUID == o.UID })
	case *catalog.AccessBinding:
		c.bindings.remove(o)
	case *catalog.Project:
		// A project goes after everything in it, but for a store that lost its memory.
		if standing := catalog.DefaultProject(); standing.Name == o.Name {
			c.objects[stone.Key.Kind][o.Name] = standing
			c.names[stone.Key.Kind].add(o.Name)
		}
		s.addReach(o.Name, func(*catalog.Service, *catalog.Cluster) bool { return true })
	case *catalog.IdentityProvider:
		c.dropSessionsLocked(o.UID)
	case *catalog.RolloutPolicy:
		s.addCovered(o, nil)
	}
}

// countLocked counts an object that came to its project, or left it.
func (c *Catalog) countLocked(key catalog.Key, n int, s *changeSet) {
	if !key.Kind.InProject() {
		return
	}
	project := objectname.Project(key.Name)
	held := c.held[project]
	held.add(key.Kind, n)
	if c.held[project] = held; held == (Totals{}) {
		delete(c.held, project)
	}
	s.addObject(catalog.Key{Kind: catalog.KindProject, Name: project})
}

func putLocked[O catalog.Object](c *Catalog, objects []O, s *changeSet) {
	for _, next := range objects {
		key := next.Key()
		last := c.objectLocked(key)
		if last == nil {
			c.names[key.Kind].add(key.Name)
			c.countLocked(key, 1, s)
		}
		if shouldNotify(last, next) {
			s.addObject(key)
		}
		switch o := catalog.Object(next).(type) {
		case *catalog.Service:
			s.addSources(o, c.services.Wanted)
			if old, ok := last.(*catalog.Service); ok {
				s.addService(old)
				s.addSources(old, c.services.Wanted)
				if old.UID != o.UID {
					s.endedServices = append(s.endedServices, old.UID)
				}
			}
			c.services.Put(o)
			s.addService(o)
			continue
		case *catalog.Cluster:
			if old, ok := last.(*catalog.Cluster); ok {
				addCluster(s, old, o)
				if !maps.Equal(old.Labels, o.Labels) || !maps.Equal(old.Annotations, o.Annotations) {
					s.addGuests(c.services, o.Name)
				}
				if !maps.Equal(old.Labels, o.Labels) {
					c.labelChanges++
				}
				addRequirersLocked(c, s, old, o)
			}
		case *catalog.AccessBinding:
			if old, ok := last.(*catalog.AccessBinding); ok {
				c.bindings.remove(old)
			}
			c.bindings.put(o)
		case *catalog.Project:
			old, _ := last.(*catalog.Project)
			if !reflect.DeepEqual(old.AgentLimits(), o.AgentLimits()) || old != nil && !maps.Equal(old.Labels, o.Labels) {
				s.addReach(o.Name, func(*catalog.Service, *catalog.Cluster) bool { return true })
			}
			if !reflect.DeepEqual(old.AnnotationShares(), o.AnnotationShares()) {
				s.hosts[o.Name] = struct{}{}
			}
		case *catalog.RolloutPolicy:
			old, _ := last.(*catalog.RolloutPolicy)
			s.addCovered(old, o)
		}
		c.objects[key.Kind][key.Name] = next
	}
}

// addCluster adds what a changed cluster means for its agent.
func addCluster(s *changeSet, last, next *catalog.Cluster) {
	if !last.Spec.Settings.Equal(next.Spec.Settings) || !maps.Equal(last.Labels, next.Labels) || !maps.Equal(last.Annotations, next.Annotations) ||
		!last.RemovalsHeldSince.Equal(next.RemovalsHeldSince) {
		s.addPlan(next.Name)
	}
	if last.Agent.KeyGeneration != next.Agent.KeyGeneration {
		// Streams that were opened with the old key check whether they may go on.
		s.clusters[next.Name] = struct{}{}
	}
}

// addRequirersLocked adds the cluster's services that its agent could not carry out and now can, or
// the other way round, and those whose status names a version that the agent no longer has, or the
// want of a report that has come.
func addRequirersLocked(c *Catalog, s *changeSet, last, next *catalog.Cluster) {
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

// shouldNotify reports whether watchers are to be notified of a stored object. When an agent was
// last heard from changes every minute, which no watcher wants to hear of.
func shouldNotify(last, next catalog.Object) bool {
	old, _ := last.(*catalog.Cluster)
	cluster, ok := next.(*catalog.Cluster)
	if !ok || old == nil {
		return true
	}
	a, b := *old, *cluster
	b.Agent.LastSeenAt, b.Agent.ConnectedUntil, b.Agent.Sequence = a.Agent.LastSeenAt, a.Agent.ConnectedUntil, a.Agent.Sequence
	return !reflect.DeepEqual(a, b)
}

// objectLocked returns the object of that name, or nil.
func (c *Catalog) objectLocked(key catalog.Key) catalog.Object {
	if key.Kind != catalog.KindService {
		return c.objects[key.Kind][key.Name]
	}
	if s := c.services.Service(key.Name); s != nil {
		return s
	}
	return nil
}

// tombstones returns one for each object and each token: what a store without them would say.
func (c *Catalog) tombstones() []catalog.Tombstone {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []catalog.Tombstone
	for _, kind := range catalog.Kinds() {
		for _, name := range c.names[kind].all() {
			key := catalog.Key{Kind: kind, Name: name}
			all = append(all, catalog.Tombstone{Key: key, UID: c.objectLocked(key).Meta().UID})
		}
	}
	for id := range c.tokens {
		all = append(all, catalog.Tombstone{Key: catalog.Key{Kind: catalog.KindToken, Name: id}})
	}
	for id := range c.sessions {
		all = append(all, catalog.Tombstone{Key: catalog.Key{Kind: catalog.KindSession, Name: id}})
	}
	return all
}

// find returns the object of that name, or nil.
func (c *Catalog) find(key catalog.Key) catalog.Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.objectLocked(key)
}

// Object returns the object of a key.
func (c *Catalog) Object(key catalog.Key) (catalog.Object, bool) {
	object := c.find(key)
	return object, object != nil
}

// Cluster returns a cluster by its name.
func (c *Catalog) Cluster(name string) (*catalog.Cluster, bool) {
	cluster, ok := c.find(catalog.Key{Kind: catalog.KindCluster, Name: name}).(*catalog.Cluster)
	return cluster, ok
}

// User returns a user by its name.
func (c *Catalog) User(name string) (*catalog.User, bool) {
	user, ok := c.find(catalog.Key{Kind: catalog.KindUser, Name: name}).(*catalog.User)
	return user, ok
}

// AgentLimits returns the limits of a service that its agent checks, or nil: those of its project, and
// which annotations its cluster is lent with.
func (c *Catalog) AgentLimits(service string) *syncpolicy.Limits {
	_, path := objectname.SplitService(service)
	own, limits := projectBy(c.Object, objectname.Project(service)), (*syncpolicy.Limits)(nil)
	if own != nil {
		limits = own.AgentLimits()
	}
	cluster, ok := c.Cluster(path)
	if !ok {
		return limits
	}
	if known := cluster.AnnotationsFor(own, projectBy(c.Object, objectname.Project(path))); known != nil {
		all := syncpolicy.Limits{}
		if limits != nil {
			all = *limits
		}
		all.ClusterAnnotations = known
		limits = &all
	}
	return limits
}

// projectBy returns a project by its name, or nil.
func projectBy(find func(catalog.Key) (catalog.Object, bool), name string) *catalog.Project {
	object, _ := find(catalog.Key{Kind: catalog.KindProject, Name: name})
	project, _ := object.(*catalog.Project)
	return project
}

// ProjectTotals counts the objects of a project.
func (c *Catalog) ProjectTotals(project string) Totals {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.held[project]
}

// RepositoryUID returns the uid of a repository, or "" if there is none of that name.
func (c *Catalog) RepositoryUID(name string) string {
	if repository := c.find(catalog.Key{Kind: catalog.KindRepository, Name: name}); repository != nil {
		return repository.Meta().UID
	}
	return ""
}

// Service returns a service by its name.
func (c *Catalog) Service(name string) (*catalog.Service, bool) {
	service, ok := c.find(catalog.Key{Kind: catalog.KindService, Name: name}).(*catalog.Service)
	return service, ok
}

// token returns the API token of that id if it is the user's and has not ended.
func (c *Catalog) token(id, userUID string, at time.Time) (token catalog.Token, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	token, ok = c.tokens[id]
	return token, ok && token.UserUID == userUID && !token.Expired(at)
}

// servicesOf returns a cluster, or nil, and its services in no order.
func (c *Catalog) servicesOf(cluster string) (*catalog.Cluster, []*catalog.Service) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.objects[catalog.KindCluster][cluster].(*catalog.Cluster)
	if !ok {
		return nil, nil
	}
	return found, c.services.In(cluster)
}

// servicesNamed returns a cluster, or nil, those of the named services that are its own, and the
// names of the others.
func (c *Catalog) servicesNamed(cluster string, names map[string]struct{}) (found *catalog.Cluster, own []*catalog.Service, gone []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, _ = c.objects[catalog.KindCluster][cluster].(*catalog.Cluster)
	for name := range names {
		if service := c.services.Service(name); service != nil && service.Spec.Cluster == cluster {
			own = append(own, service)
		} else {
			gone = append(gone, name)
		}
	}
	return found, own, gone
}

// Readers returns the services made of one of the sources. A service with several of them may occur
// more than once.
func (c *Catalog) Readers(sources ...catalog.Source) []*catalog.Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var readers []*catalog.Service
	for _, source := range sources {
		readers = append(readers, c.servicesLocked(c.services.Readers(source))...)
	}
	return readers
}

func (c *Catalog) servicesLocked(names []string) []*catalog.Service {
	services := make([]*catalog.Service, len(names))
	for i, name := range names {
		services[i] = c.services.Service(name)
	}
	return services
}

// Sources returns every source that a service names, in its normal spelling.
func (c *Catalog) Sources() []catalog.Source {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services.Sources()
}

// SourcesOf returns the sources that read the repository, in their normal spelling.
func (c *Catalog) SourcesOf(repository string) []catalog.Source {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services.SourcesOf(repository)
}

// Wanted reports whether a service names the source, given in its normal spelling, or may name it once it
// is derived for the first time.
func (c *Catalog) Wanted(source catalog.Source) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services.Wanted(source) || mayDeriveLocked(c, source)
}

// isNamed reports whether a service names the source now.
func isNamed(c *Catalog, source catalog.Source) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services.Wanted(source)
}

// Receptive returns the clusters whose agents are dialled, by name.
func (c *Catalog) Receptive() []*catalog.Cluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var receptive []*catalog.Cluster
	for _, object := range c.objects[catalog.KindCluster] {
		if cluster, ok := object.(*catalog.Cluster); ok && cluster.Spec.AgentEndpoint != "" {
			receptive = append(receptive, cluster)
		}
	}
	slices.SortFunc(receptive, func(a, b *catalog.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return receptive
}

// Query selects objects of one kind.
type Query struct {
	Kind catalog.Kind
	// Cluster selects services of this cluster; empty selects all.
	Cluster string
	// Project selects objects of this project, if the kind's belong to projects; empty selects all.
	Project string
	// Within selects services of this scope, and perhaps others, which Keep then refuses. Nil selects all.
	Within *authz.Scope
	// After selects names that sort after it.
	After string
	// Limit bounds the answer.
	Limit int
	// Keep selects objects of which it is true; nil selects all. It may call the view.
	Keep func(catalog.Object) bool
}

// listBatch bounds the objects that list reads under one lock, before it asks which of them to keep.
const listBatch = 1000

// list returns objects by name, and whether there are more. Every batch is of one revision.
func (c *Catalog) list(q Query) (objects []catalog.Object, more bool) {
	c.mu.RLock()
	from := candidatesLocked(c, q)
	c.mu.RUnlock()
	for {
		batch, last, isEnd := batchOf(c, q, from)
		for _, object := range batch {
			if q.Keep != nil && !q.Keep(object) {
				continue
			}
			if len(objects) == q.Limit {
				return objects, true
			}
			objects = append(objects, object)
		}
		if isEnd {
			return objects, false
		}
		q.After = last
	}
}

// batchOf returns the next objects of a list, kept or not, the name of the last, and whether there are
// no more.
func batchOf(c *Catalog, q Query, from *candidates) (objects []catalog.Object, last string, isEnd bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	size, looked := listBatch, 0
	if q.Keep == nil {
		size = q.Limit + 1
	}
	for name := range from.seq(q.After) {
		if looked == size {
			return objects, last, false
		}
		last = name
		looked++
		if q.Project != "" && q.Kind.InProject() && objectname.Project(name) != q.Project {
			continue
		}
		// A name of a scope may belong to no object.
		if object := c.objectLocked(catalog.Key{Kind: q.Kind, Name: name}); object != nil {
			objects = append(objects, object)
		}
	}
	return objects, last, true
}

// Totals counts the objects of each kind.
type Totals struct {
	Clusters, Repositories, Services int
}

func (t *Totals) add(kind catalog.Kind, n int) {
	switch kind { //nolint:exhaustive // the others are not counted
	case catalog.KindCluster:
		t.Clusters += n
	case catalog.KindRepository:
		t.Repositories += n
	case catalog.KindService:
		t.Services += n
	}
}

// Totals returns how many objects there are.
func (c *Catalog) Totals() Totals {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Totals{
		Clusters: len(c.objects[catalog.KindCluster]), Repositories: len(c.objects[catalog.KindRepository]), Services: c.services.Len(),
	}
}
