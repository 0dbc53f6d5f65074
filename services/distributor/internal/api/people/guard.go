// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/authz"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// guard decides which edits a caller may make.
type guard struct{ *caller }

var _ catalog.Guard = guard{}

// Sees implements catalog.Guard.
func (g guard) Sees(object catalog.Object) bool { return g.sees(object) }

// MayCreate implements catalog.Guard.
func (g guard) MayCreate(ctx context.Context, find catalog.Finder, next catalog.Object) error {
	edit := g.editing(ctx, find)
	if !edit.allows(catalog.VerbCreate, next) {
		if err := edit.checkPlace(next); err != nil {
			return err
		}
		return g.denied(catalog.VerbCreate, next)
	}
	return edit.checkContent(nil, next)
}

// MayUpdate implements catalog.Guard. An edit that moves an object to another scope needs the
// permission in both.
func (g guard) MayUpdate(ctx context.Context, find catalog.Finder, current, next catalog.Object) error {
	edit := g.editing(ctx, find)
	for _, verb := range catalog.VerbsOf(current, next) {
		if !edit.allows(verb, current) || !edit.allows(verb, next) {
			return g.denied(verb, current)
		}
	}
	if user, ok := next.(*catalog.User); ok && g.isOwnAdmin(current) && !slices.Contains(user.Spec.Groups, catalog.AdminGroup) {
		return fielderr.New("spec.groups", "without %s you would lose your own rights at once; "+
			"name the group in the document, or have another of its members take you out of it", catalog.AdminGroup)
	}
	return edit.checkContent(current, next)
}

// MayDelete implements catalog.Guard.
func (g guard) MayDelete(ctx context.Context, find catalog.Finder, current catalog.Object) error {
	if !g.editing(ctx, find).allows(catalog.VerbDelete, current) {
		return g.denied(catalog.VerbDelete, current)
	}
	if project, ok := current.(*catalog.Project); ok {
		return g.rights.MayChangeProject(project, nil)
	}
	if g.isOwnAdmin(current) {
		return fielderr.New("name", "%q is you; another member of %s has to delete you", g.Name, catalog.AdminGroup)
	}
	return nil
}

// MayNameAddresses implements catalog.Guard.
func (g guard) MayNameAddresses() bool {
	return g.rights.Allows(catalog.Permission{Verb: catalog.VerbCreate, Resource: catalog.ResourceRepositories}, authz.Object{})
}

// isOwnAdmin reports whether the object is the caller, and the reason why they may do everything. What
// takes that from them is most often a document that leaves the group out, and with the only
// administrator nobody could undo it.
func (g guard) isOwnAdmin(object catalog.Object) bool {
	user, ok := object.(*catalog.User)
	return ok && user.Name == g.Name && slices.Contains(user.Spec.Groups, catalog.AdminGroup)
}

func (c *caller) denied(verb string, object catalog.Object) error {
	key := object.Key()
	return c.rights.Denied(catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(key.Kind)}, key)
}

// editing returns the guard's view of one edit, which has made objects that nobody else sees yet.
func (g guard) editing(ctx context.Context, find catalog.Finder) editing {
	return editing{caller: g.caller, directory: editDirectory{Directory: g.view, ctx: ctx, find: find}}
}

// editing decides about the objects of one edit.
type editing struct {
	*caller
	directory authz.Directory
}

func (e editing) allows(verb string, object catalog.Object) bool {
	p := catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(object.Key().Kind)}
	return e.rights.Allows(p, authz.ObjectOf(e.directory, object))
}

// checkPlace returns, for a service that the caller may not create, that there is no such cluster if
// they may not see it.
func (e editing) checkPlace(next catalog.Object) error {
	service, ok := next.(*catalog.Service)
	if !ok {
		return nil
	}
	if cluster, ok := e.directory.Cluster(service.Spec.Cluster); ok && e.allows(catalog.VerbGet, cluster) {
		return nil
	}
	return &catalog.ReferenceError{Key: catalog.Key{Kind: catalog.KindCluster, Name: service.Spec.Cluster}, Path: "spec.cluster"}
}

// checkContent returns an error for an edit by which the caller would obtain or give what they do not
// hold. current is nil for a new object.
func (e editing) checkContent(current, next catalog.Object) error {
	return cmp.Or(e.checkRights(current, next), e.checkUses(current, next))
}

// checkRights returns an error for an edit that needs more than the permission to edit the object.
func (e editing) checkRights(current, next catalog.Object) error {
	switch o := next.(type) {
	case *catalog.Service:
		return e.checkProject(current, o)
	case *catalog.Cluster:
		return e.checkCluster(current, o)
	case *catalog.GlobalService:
		return e.checkGlobal(o)
	case *catalog.AccessBinding:
		role, _ := e.directory.Role(o.Spec.Role)
		return e.rights.MayGive(o.Spec, role)
	case *catalog.Project:
		last, _ := current.(*catalog.Project)
		return e.rights.MayChangeProject(last, o)
	case *catalog.Role:
		return e.rights.MayDefine(o.Spec)
	case *catalog.IdentityProvider:
		// A provider decides who signs in as whom, so its editor could become anybody.
		admin, _ := catalog.BuiltinRole(catalog.RoleAdmin)
		return e.rights.MayDefine(admin)
	case *catalog.TrustRule:
		// The editor decides who becomes a user of the rule.
		return e.rights.MayBecome(fleet.TrustRules{View: e.view}.RightsByRule(o))
	case *catalog.FleetSource:
		last, _ := current.(*catalog.FleetSource)
		return e.mayDirect(last, o)
	case *catalog.Repository:
		if current == nil {
			return nil
		}
		// Who says what the repository holds says what its fleet sources write.
		return e.mayDirect(slices.DeleteFunc(fleet.Sources{View: e.view}.FleetSources(), func(f *catalog.FleetSource) bool {
			return f.Spec.Source.Repository != o.Name
		})...)
	case *catalog.User:
		return e.rights.MayBecome(e.view.Rights(fleet.Named(o.Name, o.Spec.Groups)))
	}
	return nil
}

// mayDirect returns an error unless the caller holds everything that the fleet sources may do. Those that
// are nil are left out.
func (e editing) mayDirect(sources ...*catalog.FleetSource) error {
	for _, source := range sources {
		if source == nil {
			continue
		}
		spec := source.Rights()
		role, _ := catalog.BuiltinRole(spec.Role)
		if err := e.rights.MayGive(spec, role); err != nil {
			return err
		}
	}
	return nil
}

// checkGlobal returns an error if somebody writes a global service who may not write services in its whole
// project. Which clusters it reaches is the project's to say.
func (e editing) checkGlobal(next *catalog.GlobalService) error {
	project := authz.OfProject(objectname.Project(next.Name))
	for _, verb := range []string{catalog.VerbCreate, catalog.VerbUpdate, catalog.VerbDelete} {
		p := catalog.Permission{Verb: verb, Resource: catalog.ResourceServices}
		if !e.rights.Allows(p, project) {
			return &authz.EscalationError{
				Missing: fmt.Sprintf("the permission %q in the whole project %s, which a global service needs", p, project.Project), Limit: e.rights.LimitText(),
			}
		}
	}
	return nil
}

// checkProject returns an error if somebody who may not create services in the project creates one there
// because they may do so in its cluster, which belongs to another project: the limits of the one would
// not hold for the people of the other.
func (e editing) checkProject(current catalog.Object, next *catalog.Service) error {
	project := objectname.Project(next.Name)
	create := catalog.Permission{Verb: catalog.VerbCreate, Resource: catalog.ResourceServices}
	inProject := authz.Object{Project: project, Service: next.Name, Namespace: next.Spec.Wanted().NamespaceOrDefault()}
	if current != nil || objectname.Project(next.Spec.Cluster) == project || e.rights.Allows(create, inProject) {
		return nil
	}
	return e.denied(catalog.VerbCreate, next)
}

// checkCluster returns an error if a cluster gets another address to dial from somebody who may not
// update all clusters, because the hub dials it from its own network; or if anything else that decides
// about others changes, and the caller does not hold everything in the cluster. By labels bindings of
// others cover the cluster; labels and annotations are facts, which lead references of services and
// parameters of global services. The settings of the agent protect all of its services from each other,
// and show what is in their objects.
func (e editing) checkCluster(current catalog.Object, next *catalog.Cluster) error {
	last, ok := current.(*catalog.Cluster)
	if !ok {
		last = &catalog.Cluster{}
	}
	all := catalog.Permission{Verb: catalog.VerbUpdate, Resource: catalog.ResourceClusters}
	if last.Spec.AgentEndpoint != next.Spec.AgentEndpoint && !e.rights.Allows(all, authz.Object{}) {
		return &authz.EscalationError{Missing: fmt.Sprintf("the permission %q for the hub, which agent_endpoint needs", all), Limit: e.rights.LimitText()}
	}
	if maps.Equal(last.Labels, next.Labels) && maps.Equal(last.Annotations, next.Annotations) && last.Spec.Settings.Equal(next.Spec.Settings) {
		return nil
	}
	admin, _ := catalog.BuiltinRole(catalog.RoleAdmin)
	return e.rights.MayGive(catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{next.Name}}}, admin)
}

// editDirectory also finds the objects that the edit has made.
type editDirectory struct {
	authz.Directory
	ctx  context.Context //nolint:containedctx // lives as long as the edit
	find catalog.Finder
}

// Cluster implements authz.Directory.
func (d editDirectory) Cluster(name string) (*catalog.Cluster, bool) {
	if cluster, ok := d.Directory.Cluster(name); ok {
		return cluster, true
	}
	object, err := d.find(d.ctx, catalog.Key{Kind: catalog.KindCluster, Name: name})
	cluster, ok := object.(*catalog.Cluster)
	return cluster, ok && err == nil
}

// Role implements authz.Directory. The edit may have changed the role, so its own state comes first.
func (d editDirectory) Role(name catalog.RoleName) (catalog.RoleSpec, bool) {
	if spec, ok := catalog.BuiltinRole(name); ok {
		return spec, true
	}
	object, err := d.find(d.ctx, catalog.Key{Kind: catalog.KindRole, Name: string(name)})
	role, ok := object.(*catalog.Role)
	if !ok || err != nil {
		return catalog.RoleSpec{}, false
	}
	return role.Spec, true
}
