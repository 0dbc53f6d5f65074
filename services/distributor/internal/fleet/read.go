// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// Record is one object with its status; the fields of its kind are set.
type Record struct {
	Object catalog.Object
	// Service belongs to a *catalog.Service.
	Service ServiceStatus
	// Cluster belongs to a *catalog.Cluster.
	Cluster ClusterStatus
	// Mirror belongs to a *catalog.Repository; nil while nothing is known.
	Mirror *catalog.Mirror
	// Binding belongs to a *catalog.AccessBinding.
	Binding BindingStatus
}

// Get returns one object.
func (v *View) Get(key catalog.Key) (Record, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	object := v.object(key)
	if object == nil {
		return Record{}, false
	}
	return v.record(object), true
}

// Describe returns the object with the status that belongs to its name.
func (v *View) Describe(object catalog.Object) Record {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.record(object)
}

func (v *View) record(object catalog.Object) Record {
	r := Record{Object: object}
	switch o := object.(type) {
	case *catalog.Cluster:
		r.Cluster = v.clusterStatus(o)
	case *catalog.Repository:
		if mirror, ok := v.mirrors[o.Name]; ok {
			r.Mirror = &mirror
		}
	case *catalog.Service:
		r.Service = v.serviceStatus(o)
	case *catalog.AccessBinding:
		r.Binding = v.bindingStatus(o)
	}
	return r
}

// Query selects objects of one kind.
type Query struct {
	Kind catalog.Kind
	// Cluster leaves services of this cluster only; empty means all.
	Cluster string
	// After leaves names that sort after it.
	After string
	// Limit bounds the answer.
	Limit int
	// Keep leaves objects of which it is true. Nil means all. It must not call the view.
	Keep func(catalog.Object) bool
}

// List returns objects by name, and whether there are more.
func (v *View) List(q Query) (records []Record, more bool) {
	v.mu.RLock()
	_, cached := v.sorted[q.Kind]
	v.mu.RUnlock()
	if !cached {
		v.mu.Lock()
		v.sorted[q.Kind] = v.names(q.Kind)
		v.mu.Unlock()
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	names := v.candidates(q)
	first, exact := slices.BinarySearch(names, q.After)
	if exact {
		first++
	}
	for _, name := range names[first:] {
		object := v.object(catalog.Key{Kind: q.Kind, Name: name})
		if q.Keep != nil && !q.Keep(object) {
			continue
		}
		if len(records) == q.Limit {
			return records, true
		}
		records = append(records, v.record(object))
	}
	return records, false
}

// candidates returns the sorted names that a query begins with. The caller holds the lock.
func (v *View) candidates(q Query) []string {
	if q.Kind == catalog.KindService && q.Cluster != "" {
		return v.index.Services(q.Cluster)
	}
	if names, ok := v.sorted[q.Kind]; ok {
		return names
	}
	return v.names(q.Kind)
}

// names returns the sorted names of a kind. The caller holds the lock.
func (v *View) names(kind catalog.Kind) []string {
	switch kind {
	case catalog.KindCluster:
		return slices.Sorted(maps.Keys(v.clusters))
	case catalog.KindRepository:
		return slices.Sorted(maps.Keys(v.repositories))
	case catalog.KindService:
		return v.index.Names()
	case catalog.KindUser:
		return slices.Sorted(maps.Keys(v.people.users))
	case catalog.KindAccessBinding:
		return slices.Sorted(maps.Keys(v.people.bindings))
	case catalog.KindToken: // is no object
	}
	return nil
}

// Keys returns the keys of all objects: clusters, then repositories, then services, then people and their bindings, each by name.
func (v *View) Keys() []catalog.Key {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var keys []catalog.Key
	for _, kind := range []catalog.Kind{
		catalog.KindCluster, catalog.KindRepository, catalog.KindService, catalog.KindUser, catalog.KindAccessBinding,
	} {
		for _, name := range v.candidates(Query{Kind: kind}) {
			keys = append(keys, catalog.Key{Kind: kind, Name: name})
		}
	}
	return keys
}

// Cluster returns a cluster by its name.
func (v *View) Cluster(name string) (*catalog.Cluster, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	c, ok := v.clusters[name]
	return c, ok
}

// Receptive returns the clusters whose agents are dialled, by name.
func (v *View) Receptive() []*catalog.Cluster {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var receptive []*catalog.Cluster
	for _, c := range v.clusters {
		if c.Spec.AgentEndpoint != "" {
			receptive = append(receptive, c)
		}
	}
	slices.SortFunc(receptive, func(a, b *catalog.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return receptive
}

// Admit returns the cluster if identityUID, made by admission.IdentityUID, is that of the live one: if what was issued
// to its agent is still good. Before it says no it looks into the store: another replica may have enrolled the agent
// just now.
func (v *View) Admit(ctx context.Context, name, identityUID string) (*catalog.Cluster, bool) {
	if c, ok := v.admitted(name, identityUID); ok {
		return c, true
	}
	v.Look(ctx)
	return v.admitted(name, identityUID)
}

func (v *View) admitted(name, identityUID string) (*catalog.Cluster, bool) {
	c, ok := v.Cluster(name)
	if !ok || !c.Agent.Enrolled() || identityUID != admission.IdentityUID(c.UID, c.Agent.KeyGeneration) {
		return nil, false
	}
	return c, true
}

// Totals counts the objects of each kind.
type Totals struct {
	Clusters, Repositories, Services int
}

// Totals returns how many objects there are.
func (v *View) Totals() Totals {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return Totals{Clusters: len(v.clusters), Repositories: len(v.repositories), Services: v.index.Len()}
}
