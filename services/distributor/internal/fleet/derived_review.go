// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/derive"
)

// maxNamed bounds the clusters that a refused removal names.
const maxNamed = 5

// Derivations is the view for the catalog's editor. It is safe for concurrent use.
type Derivations struct{ View *View }

var _ catalog.Derivations = Derivations{}

// Derived implements catalog.Derivations.
func (d Derivations) Derived(path string) *catalog.Service {
	if service, ok := d.View.Service(path); ok && service.Derived != nil {
		return service
	}
	return nil
}

// Review implements catalog.Derivations. It takes no longer than it takes to derive what the edit
// touches.
func (d Derivations) Review(edit catalog.Edited) error {
	c := d.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := review{c: c, after: map[catalog.Key]catalog.Object{}, gained: map[string]int{}}
	for _, object := range edit.Deleted {
		r.after[object.Key()] = nil
		if global, ok := object.(*catalog.GlobalService); ok && !edit.Cascades {
			if n := len(membersLocked(c, global)); n > 0 {
				return &catalog.CascadeError{Global: global.Name, Members: n}
			}
		}
	}
	for _, object := range edit.Put {
		r.after[object.Key()] = object
		switch o := object.(type) {
		case *catalog.GlobalService:
			r.globals = append(r.globals, o.Name)
		case *catalog.Project:
			r.isEvery = r.isEvery || c.objects[catalog.KindProject][o.Name] != nil
		case *catalog.Cluster:
			if edit.Created[o.Key()] {
				continue // it has nothing to lose
			}
			r.clusters = append(r.clusters, o.Name)
		case *catalog.Service:
			if edit.Created[o.Key()] {
				r.gained[objectname.Project(o.Name)]++
			}
		}
	}
	return r.check()
}

// review is one edit, over the catalog before it. The caller holds the catalog's lock.
type review struct {
	c *Catalog
	// after are the objects of the edit; nil for those that are gone.
	after map[catalog.Key]catalog.Object
	// globals and clusters are those that the edit changes; isEvery is true if it may touch others.
	globals, clusters []string
	isEvery           bool
	// gained counts the services that projects get by the edit.
	gained map[string]int
}

// now returns an object as it is after the edit.
func now[O catalog.Object](r *review, kind catalog.Kind, name string) (object O, ok bool) {
	key := catalog.Key{Kind: kind, Name: name}
	if edited, isEdited := r.after[key]; isEdited {
		object, ok = edited.(O)
		return object, ok
	}
	object, ok = r.c.objects[kind][name].(O)
	return object, ok
}

func (r *review) check() error {
	for _, name := range slices.Sorted(slices.Values(r.globals)) {
		if err := r.checkGlobal(name); err != nil {
			return err
		}
	}
	if r.isEvery || len(r.clusters) > 0 {
		for _, name := range r.c.names[catalog.KindGlobalService].all() {
			if err := r.checkClusters(name); err != nil {
				return err
			}
		}
	}
	for _, project := range slices.Sorted(maps.Keys(r.gained)) {
		if err := r.checkQuota(project); err != nil {
			return err
		}
	}
	return nil
}

// checkGlobal reviews a global service that the edit changes or adds.
func (r *review) checkGlobal(name string) error {
	global, ok := now[*catalog.GlobalService](r, catalog.KindGlobalService, name)
	if !ok {
		return nil
	}
	compiled, err := derive.Compile(global)
	if err != nil {
		return err
	}
	members := membersLocked(r.c, global)
	var lost []*catalog.Cluster
	for cluster := range r.c.objects[catalog.KindCluster] {
		found, ok := now[*catalog.Cluster](r, catalog.KindCluster, cluster)
		if !ok {
			continue
		}
		_, isMember := members[cluster]
		switch isWanted := r.selects(compiled, found); {
		case isMember && !isWanted:
			lost = append(lost, found)
		case !isMember && isWanted && r.c.services.Service(global.DerivedPath(cluster)) == nil:
			r.gained[objectname.Project(name)]++
		}
	}
	return guardRemoval(global, members, lost)
}

// checkClusters reviews the clusters that the edit changes for a global service that it leaves alone.
func (r *review) checkClusters(name string) error {
	if slices.Contains(r.globals, name) {
		return nil
	}
	global, ok := now[*catalog.GlobalService](r, catalog.KindGlobalService, name)
	compiled := r.c.derived.globals[name]
	if !ok || compiled == nil {
		return nil
	}
	members := membersLocked(r.c, global)
	clusters := r.clusters
	if r.isEvery {
		clusters = slices.Collect(maps.Keys(members))
	}
	var lost []*catalog.Cluster
	for _, cluster := range clusters {
		found, ok := now[*catalog.Cluster](r, catalog.KindCluster, cluster)
		if _, isMember := members[cluster]; ok && isMember && !r.selects(compiled, found) {
			lost = append(lost, found)
		}
	}
	return guardRemoval(global, members, lost)
}

// selects reports whether a global service selects a cluster after the edit. An expression that fails
// takes nothing away.
func (r *review) selects(g *derive.Global, cluster *catalog.Cluster) bool {
	own, ok := now[*catalog.Project](r, catalog.KindProject, objectname.Project(g.Spec().Name))
	if !ok {
		return false
	}
	owner, _ := now[*catalog.Project](r, catalog.KindProject, objectname.Project(cluster.Name))
	if !own.MayUseCluster(owner, cluster) {
		return false
	}
	// Expressions keep nothing of a call, so those of the catalog can be asked beside it.
	_, ok, err := g.Matches(context.Background(), &derive.Cluster{Cluster: cluster})
	return ok || err != nil
}

// checkQuota returns an error if a project gets services for which its quota has no room.
func (r *review) checkQuota(name string) error {
	project, ok := now[*catalog.Project](r, catalog.KindProject, name)
	if !ok || project.Spec.Quotas.Services == nil || r.gained[name] == 0 {
		return nil
	}
	has, quota := r.c.held[name].Services, int(*project.Spec.Quotas.Services)
	if has+r.gained[name] <= quota {
		return nil
	}
	return fielderr.New("metadata.project", "%q has %d services, the derived ones among them, and would have %d more; its quota allows %d; select fewer clusters, or raise spec.quotas.services of the project",
		name, has, r.gained[name], quota)
}

// guardRemoval returns an error if an edit takes more clusters from a global service than it allows.
func guardRemoval(global *catalog.GlobalService, members map[string]*catalog.Service, lost []*catalog.Cluster) error {
	allowed := global.Spec.Removal.MaxRemoved(len(members))
	if len(lost) <= allowed {
		return nil
	}
	slices.SortFunc(lost, func(a, b *catalog.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	e := digest.NewSequence("leat.removal.v1", global.UID)
	refused := &catalog.RemovalError{Global: global.Name, Lost: len(lost), Members: len(members), Allowed: allowed}
	for i, cluster := range lost {
		e.Text(cluster.UID)
		if i < maxNamed {
			refused.Clusters = append(refused.Clusters, cluster.Name)
		}
	}
	if refused.Digest = e.Digest().String(); refused.Digest == global.Spec.Removal.Confirmation {
		return nil
	}
	return refused
}

// membersLocked returns the derived services of a global service, by cluster.
func membersLocked(c *Catalog, global *catalog.GlobalService) map[string]*catalog.Service {
	members := map[string]*catalog.Service{}
	for path := range c.names[catalog.KindService].inClusters(global.Name) {
		if service := c.services.Service(path); service.Derived != nil {
			members[service.Spec.Cluster] = service
		}
	}
	return members
}
