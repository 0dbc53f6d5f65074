// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/derive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxNamed bounds the clusters that a refused removal names.
const maxNamed = 5

// Derivations is the view for the catalog's editor. It is safe for concurrent use.
type Derivations struct{ View *View }

var _ catalog.Derivations = Derivations{}

// Derived implements catalog.Derivations.
func (d Derivations) Derived(path string) *catalog.Service {
	if service, ok := d.View.Catalog.Service(path); ok && service.Derived != nil {
		return service
	}
	return nil
}

// Members implements catalog.Derivations.
func (d Derivations) Members(global string) int {
	c := d.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return countMembersLocked(c.contents, global)
}

// reviewUnits bounds what a review evaluates, in CEL's own unit: some seconds of a core, where a condition
// that people write costs a millisecond for 1,000 clusters.
const reviewUnits = 1_000_000

// Review implements catalog.Derivations. It evaluates conditions without the catalog's lock, and
// handles one global service under it at a time.
func (d Derivations) Review(edit catalog.Edited) error {
	r, err := newReview(d.View.Catalog, edit)
	if err != nil {
		return err
	}
	return r.check()
}

// review is one edit, over the catalog before it.
type review struct {
	c *Catalog
	// batch is the state after the edit, with the clusters that each global service may lose or gain by it.
	batch
	// changed are the global services that the edit makes, or whose selection it changes.
	changed map[string]bool
	// edited are the clusters that the edit changes.
	edited map[string]struct{}
	// before are the projects that the edit changes, as they were.
	before map[string]*catalog.Project
	// gained counts the services that projects get by the edit, and held their present ones.
	gained, held map[string]int
}

// newReview returns what there is to ask about an edit.
func newReview(c *Catalog, edit catalog.Edited) (*review, error) {
	r := &review{
		c: c, changed: map[string]bool{}, edited: map[string]struct{}{}, gained: map[string]int{}, held: map[string]int{},
		batch: batch{works: map[string]*work{}},
	}
	changes := &catalog.Changes{Projects: only[*catalog.Project](edit.Put), Clusters: only[*catalog.Cluster](edit.Put)}
	changes.Globals = only[*catalog.GlobalService](edit.Put)
	projects := map[string]*catalog.Project{}
	r.before = projects
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, global := range changes.Globals {
		last, ok := c.contents.globals.objects[global.Name]
		r.changed[global.Name] = !ok || !reflect.DeepEqual(last.Spec.Clusters, global.Spec.Clusters)
	}
	for _, project := range changes.Projects {
		if last, ok := c.contents.projects.objects[project.Name]; ok {
			projects[project.Name] = last
		}
	}
	for _, cluster := range changes.Clusters {
		if !edit.Created[cluster.Key()] { // a new one has nothing to lose
			r.edited[cluster.Name] = struct{}{}
		}
	}
	for _, service := range only[*catalog.Service](edit.Put) {
		if edit.Created[service.Key()] {
			r.gained[objectname.Project(service.Name)]++
		}
	}
	for _, object := range edit.Deleted {
		changes.Deleted = append(changes.Deleted, catalog.Tombstone{Key: object.Key(), UID: object.Meta().UID})
	}
	for _, global := range only[*catalog.GlobalService](edit.Deleted) {
		if edit.Cascades {
			break
		}
		if isUncountedLocked(c.contents.derived, global.Name) {
			return nil, catalog.ErrUndecided
		}
		if n := countMembersLocked(c.contents, global.Name); n > 0 {
			return nil, &catalog.CascadeError{Global: global.Name, Members: n}
		}
	}
	for project := range r.gained {
		r.held[project] = c.contents.held[project].Services
	}
	if len(changes.Globals)+len(projects)+len(r.edited) == 0 {
		r.projects = maps.Clone(c.contents.projects.objects)
		return r, nil
	}
	for _, global := range changes.Globals {
		project := objectname.Project(global.Name)
		r.held[project] = c.contents.held[project].Services
	}
	r.basis = basisLocked(c.contents)
	r.apply(changes)
	return r, r.askLocked(projects)
}

// only returns the ones of one kind among some objects.
func only[O catalog.Object](objects []catalog.Object) []O {
	var found []O
	for _, object := range objects {
		if o, ok := object.(O); ok {
			found = append(found, o)
		}
	}
	return found
}

// askLocked notes for each global service the clusters that the edit is about. projects are the
// projects that the edit changes, as before it.
func (r *review) askLocked(projects map[string]*catalog.Project) error {
	for path, global := range r.globals {
		isChanged, isPut := r.changed[path]
		if isUncountedLocked(r.c.contents.derived, path) && (isPut || len(projects)+len(r.edited) > 0) {
			return catalog.ErrUndecided
		}
		w := &work{global: global, isNew: isChanged}
		if !isChanged {
			w.compiled = r.c.contents.derived.globals[path]
		}
		r.works[path] = w
	}
	t := touched{projects: projects, clusters: slices.Collect(maps.Keys(r.edited))}
	for path, isChanged := range r.changed {
		if isChanged {
			t.globals = append(t.globals, path)
		}
	}
	r.mark(t)
	return nil
}

// isUncountedLocked reports whether the members of a global service are not even known as waiting services.
func isUncountedLocked(d *derivations, path string) bool {
	j := d.jobs[path]
	return j != nil && j.isFirst && !j.isSettled
}

func (r *review) check() error {
	var own, others []*work
	for _, path := range slices.Sorted(maps.Keys(r.works)) {
		switch w := r.works[path]; {
		case w.isEmpty():
		case w.isNew:
			own = append(own, w)
		default:
			others = append(others, w)
		}
	}
	ctx := expression.WithBudget(context.Background(), reviewUnits)
	for _, w := range own {
		if err := r.answer(ctx, w); err != nil {
			return err
		}
		if expression.IsSpent(ctx) {
			return catalog.ErrExpensive
		}
	}
	// Each of the others has its share, so that one which costs much decides nothing about the rest.
	for _, w := range others {
		if err := r.answer(expression.WithBudget(context.Background(), reviewUnits/uint64(len(others))), w); err != nil {
			return err
		}
	}
	for _, project := range slices.Sorted(maps.Keys(r.gained)) {
		if err := r.checkQuota(project); err != nil {
			return err
		}
	}
	return nil
}

// answer returns an error if the edit takes more clusters from a global service than it allows. It counts the
// clusters that one which the edit changes gains.
func (r *review) answer(ctx context.Context, w *work) error {
	own := r.projects[objectname.Project(w.global.Name)]
	isCounted := w.isNew && own != nil && own.Spec.Quotas.Services != nil
	members, others := r.members(w)
	if len(members) == 0 && !isCounted {
		return nil
	}
	if w.compiled == nil {
		var err error
		switch w.compiled, err = derive.CompileSelection(w.global); {
		case err != nil && w.isNew:
			return err
		case err != nil:
			return nil //nolint:nilerr // a later version of the hub wrote it, and nothing is taken away
		}
	}
	var lost []*catalog.Cluster
	for _, cluster := range members {
		if !r.selects(ctx, w, own, cluster) {
			lost = append(lost, cluster)
		}
	}
	for _, cluster := range others {
		if isCounted && r.selects(ctx, w, own, cluster) {
			r.gained[objectname.Project(w.global.Name)]++
		}
	}
	return r.guardRemoval(w.global, lost)
}

// members returns the clusters of a work that have a derived service now, and the ones that have no
// service of its name, each as it is after the edit.
func (r *review) members(w *work) (members, others []*catalog.Cluster) {
	r.c.mu.RLock()
	defer r.c.mu.RUnlock()
	for _, cluster := range w.among(r.clusters) {
		switch service := r.c.contents.services.Service(w.global.DerivedPath(cluster.Name)); {
		case r.c.contents.clusters.objects[cluster.Name] == nil:
		case service == nil:
			others = append(others, cluster)
		case service.Derived != nil:
			members = append(members, cluster)
		}
	}
	return members, others
}

// selects reports whether a global service of a project selects a cluster after the edit. An
// undecidable condition takes nothing away.
func (r *review) selects(ctx context.Context, w *work, own *catalog.Project, cluster *catalog.Cluster) bool {
	if own == nil || !own.MayUseCluster(r.projects[objectname.Project(cluster.Name)], cluster) {
		return false
	}
	if _, isTouched := r.edited[cluster.Name]; !w.isNew && !isTouched && r.isSeenAsBefore(own, cluster) {
		return true // it is a member, so its condition holds
	}
	// Expressions keep nothing of a call, so the deriver's can be evaluated beside it.
	_, ok, err := w.compiled.Matches(ctx, derive.ClusterFor(cluster, own, r.projects[objectname.Project(cluster.Name)]))
	if !ok && err == nil && !w.isNew && r.isHeld(w.global, cluster) {
		_, ok = derive.Held(w.global, cluster)
	}
	return ok || err != nil
}

// isSeenAsBefore reports whether the edit leaves what services of a project know of a cluster that it does not
// change itself: a share may list fewer annotations.
func (r *review) isSeenAsBefore(own *catalog.Project, cluster *catalog.Cluster) bool {
	was := func(name string) *catalog.Project {
		if last, ok := r.before[name]; ok {
			return last
		}
		return r.projects[name]
	}
	owner := objectname.Project(cluster.Name)
	return cluster.IsSeenAlike(was(own.Name), was(owner), own, r.projects[owner])
}

// checkQuota returns an error if a project gets services for which its quota has no room.
func (r *review) checkQuota(name string) error {
	project := r.projects[name]
	if project == nil || project.Spec.Quotas.Services == nil || r.gained[name] == 0 {
		return nil
	}
	has, quota := r.held[name], int(*project.Spec.Quotas.Services)
	if has+r.gained[name] <= quota {
		return nil
	}
	return fielderr.New("metadata.project", "%q has %s, the derived ones among them, and would have %d more; its quota allows %d; select fewer clusters, or raise spec.quotas.services of the project",
		name, amount.Of(has, "service"), r.gained[name], quota)
}

// guardRemoval returns an error if an edit takes more clusters from a global service than it allows.
func (r *review) guardRemoval(global *catalog.GlobalService, lost []*catalog.Cluster) error {
	if len(lost) == 0 {
		return nil
	}
	r.c.mu.RLock()
	members := countMembersLocked(r.c.contents, global.Name)
	r.c.mu.RUnlock()
	allowed := global.Spec.Removal.MaxRemoved(members)
	if len(lost) <= allowed {
		return nil
	}
	slices.SortFunc(lost, func(a, b *catalog.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	e := digest.NewSequence("leat.removal.v1", global.UID)
	refused := &catalog.RemovalError{Global: global.Name, Lost: len(lost), Members: members, Allowed: allowed}
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

// countMembersLocked counts the derived services of a global service.
func countMembersLocked(c *contents, path string) int {
	n := 0
	for member := range c.indexed.names.inClusters(path) {
		if c.services.Service(member).Derived != nil {
			n++
		}
	}
	return n
}
