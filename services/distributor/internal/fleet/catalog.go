// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Catalog is this replica's copy of the catalog. A batch of changes is applied whole, so each read
// is of one revision: no one reaches a cluster by a binding that was deleted before the cluster was
// created. It is safe for concurrent use. Returned values are shared and must not be changed.
type Catalog struct {
	mu       sync.RWMutex
	contents *contents // mu guards them
}

// contents are what the copy holds. The lock of Catalog guards them: every function that takes them
// is called with it.
type contents struct {
	shelves

	revision int64
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
	// derived are the services that global services stand for.
	derived *derivations
	// specFor returns the spec that a service is planned with. It takes no lock that comes before the catalog's.
	specFor func(*catalog.Service) catalog.ServiceSpec
}

func newCatalog() *Catalog {
	services := plan.NewIndex()
	c := &contents{
		shelves: newShelves(services), services: services, bindings: newBindingIndex(), held: map[string]Totals{},
		tokens: map[string]catalog.Token{}, sessions: map[string]catalog.Session{}, derived: newDerivations(),
		specFor: func(service *catalog.Service) catalog.ServiceSpec { return service.Spec },
	}
	c.addDefaultLocked()
	return &Catalog{contents: c}
}

// addDefaultLocked adds the project default unless the store holds one, which a person has edited.
func (c *contents) addDefaultLocked() {
	if standing := catalog.DefaultProject(); c.projects.objects[standing.Name] == nil {
		c.projects.objects[standing.Name] = standing
		c.projects.names.add(standing.Name)
	}
}

// Revision returns the revision of the catalog that the copy shows.
func (c *Catalog) Revision() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.revision
}

// LabelChanges returns a number that grows whenever a cluster is given other labels, which bindings may
// select.
func (c *Catalog) LabelChanges() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.labelChanges
}

// merge applies a batch of changes to the copy, with what they mean for derived services, and returns what
// it touches. isFirst is true if the copy was empty.
func (c *Catalog) merge(changes catalog.Changes, derived *batch, isFirst bool) *changeSet {
	s := newChangeSet()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, stone := range changes.Deleted {
		c.contents.removeLocked(stone, s)
	}
	c.contents.addDefaultLocked()
	for _, kind := range c.contents.inOrder {
		kind.putLocked(c.contents, &changes, s)
	}
	c.contents.derived.variants.put(changes.Variants)
	requestLocked(c.contents, changes.Requests, s)
	putBatchLocked(c.contents, derived, isFirst, s)
	for _, token := range changes.Tokens {
		c.contents.tokens[token.ID] = token
	}
	c.contents.putSessionsLocked(changes.Sessions)
	c.contents.revision = changes.Revision
	return s
}

// putSessionsLocked adds sessions. Sessions that ended by their time leave no tombstones, so they
// are forgotten here.
func (c *contents) putSessionsLocked(sessions []catalog.Session) {
	if len(sessions) == 0 {
		return
	}
	at := catalog.Now()
	maps.DeleteFunc(c.sessions, func(_ string, s catalog.Session) bool { return s.Expired(at) })
	for _, s := range sessions {
		if !s.Expired(at) {
			c.sessions[s.ID] = s
		}
	}
}

// removeLocked removes what a tombstone is of.
func (c *contents) removeLocked(stone catalog.Tombstone, s *changeSet) {
	switch key := stone.Key; key.Kind { // tokens and sessions are not objects
	case catalog.KindToken:
		delete(c.tokens, key.Name)
	case catalog.KindSession:
		delete(c.sessions, key.Name)
	default:
		if kind, ok := c.byKind[key.Kind]; ok { // a later version of the hub may have had others
			kind.removeLocked(c, stone, s)
		}
	}
}

// tombstones returns one for each object and each token: the content of a store without them.
func (c *Catalog) tombstones() []catalog.Tombstone {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var all []catalog.Tombstone
	for _, kind := range c.contents.inOrder {
		for _, name := range kind.sorted().all() {
			object := kind.get(name)
			all = append(all, catalog.Tombstone{Key: object.Key(), UID: object.Meta().UID})
		}
	}
	for id := range c.contents.tokens {
		all = append(all, catalog.Tombstone{Key: catalog.Key{Kind: catalog.KindToken, Name: id}})
	}
	for id := range c.contents.sessions {
		all = append(all, catalog.Tombstone{Key: catalog.Key{Kind: catalog.KindSession, Name: id}})
	}
	return all
}

// find returns the object of that name, or nil.
func (c *Catalog) find(key catalog.Key) catalog.Object {
	object, _ := c.findAt(key)
	return object
}

// findAt returns the object of that name, or nil, and the index of its kind in catalog.Kinds.
func (c *Catalog) findAt(key catalog.Key) (object catalog.Object, place int) {
	kind, ok := c.contents.byKind[key.Kind]
	if !ok {
		return nil, 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return kind.get(key.Name), kind.place()
}

// named returns the object of one kind by its name.
func named[O catalog.Object](c *Catalog, of *shelf[O], name string) (O, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return of.stored.get(name)
}

// Object returns the object of a key.
func (c *Catalog) Object(key catalog.Key) (catalog.Object, bool) {
	object := c.find(key)
	return object, object != nil
}

// Cluster returns a cluster by its name.
func (c *Catalog) Cluster(name string) (*catalog.Cluster, bool) {
	return named(c, c.contents.clusters, name)
}

// AgentLimits returns the limits of a service that its agent checks, or nil: the limits of its
// project, and the annotations with which its cluster is lent.
func (c *Catalog) AgentLimits(service string) *syncpolicy.Limits {
	_, path := objectname.SplitService(service)
	own, limits := c.project(objectname.Project(service)), (*syncpolicy.Limits)(nil)
	if own != nil {
		limits = own.AgentLimits()
	}
	cluster, ok := c.Cluster(path)
	if !ok {
		return limits
	}
	if known := cluster.AnnotationsFor(own, c.project(objectname.Project(path))); known != nil {
		all := syncpolicy.Limits{}
		if limits != nil {
			all = *limits
		}
		all.ClusterAnnotations = known
		limits = &all
	}
	return limits
}

// project returns a project by its name, or nil.
func (c *Catalog) project(name string) *catalog.Project {
	project, _ := named(c, c.contents.projects, name)
	return project
}

// ProjectTotals counts the objects of a project.
func (c *Catalog) ProjectTotals(project string) Totals {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.held[project]
}

// RepositoryUID returns the uid of a repository, or "" if there is none of that name.
func (c *Catalog) RepositoryUID(name string) string {
	if repository, ok := named(c, c.contents.repositories, name); ok {
		return repository.UID
	}
	return ""
}

// Service returns a service by its name.
func (c *Catalog) Service(name string) (*catalog.Service, bool) {
	return named(c, c.contents.indexed, name)
}

// servicesOf returns a cluster, or nil, and its services in no order.
func (c *Catalog) servicesOf(cluster string) (*catalog.Cluster, []*catalog.Service) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.contents.clusters.objects[cluster]
	if !ok {
		return nil, nil
	}
	return found, c.contents.services.In(cluster)
}

// servicesNamed returns a cluster, or nil, its own ones among the named services, and the names of
// the others.
func (c *Catalog) servicesNamed(cluster string, names map[string]struct{}) (found *catalog.Cluster, own []*catalog.Service, gone []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found = c.contents.clusters.objects[cluster]
	for name := range names {
		if service := c.contents.services.Service(name); service != nil && service.Spec.Cluster == cluster {
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
		readers = append(readers, c.contents.servicesLocked(c.contents.services.Readers(source))...)
	}
	return readers
}

func (c *contents) servicesLocked(names []string) []*catalog.Service {
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
	return c.contents.services.Sources()
}

// SourcesOf returns the sources that read the repository, in their normal spelling.
func (c *Catalog) SourcesOf(repository string) []catalog.Source {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.services.SourcesOf(repository)
}

// Wanted reports whether a service names the source, given in its normal spelling, or may name it once it
// is derived for the first time.
func (c *Catalog) Wanted(source catalog.Source) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.services.Wanted(source) || mayDeriveLocked(c.contents, source)
}

// isNamed reports whether a service names the source now.
func isNamed(c *Catalog, source catalog.Source) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.services.Wanted(source)
}

// Receptive returns the clusters whose agents are dialled, by name.
func (c *Catalog) Receptive() []*catalog.Cluster {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var receptive []*catalog.Cluster
	for _, cluster := range c.contents.clusters.objects {
		if cluster.Spec.AgentEndpoint != "" {
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
	from := candidatesLocked(c.contents, q)
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
	kind, size, looked := c.contents.byKind[q.Kind], listBatch, 0
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
		if object := kind.get(name); object != nil {
			objects = append(objects, object)
		}
	}
	return objects, last, true
}

// Totals counts the objects of each kind.
type Totals struct {
	Clusters, Repositories, Services int
}

// plus returns the totals with n times the others.
func (t Totals) plus(others Totals, n int) Totals {
	return Totals{Clusters: t.Clusters + n*others.Clusters, Repositories: t.Repositories + n*others.Repositories, Services: t.Services + n*others.Services}
}

// Totals returns how many objects there are.
func (c *Catalog) Totals() Totals {
	c.mu.RLock()
	defer c.mu.RUnlock()
	held := c.contents
	return Totals{Clusters: len(held.clusters.objects), Repositories: len(held.repositories.objects), Services: held.services.Len()}
}
