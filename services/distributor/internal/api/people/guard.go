// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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

// isOwnAdmin reports whether the object is the caller, and the reason why they may do everything.
// They usually lose that by a document that leaves the group out, and after the only administrator
// no one could undo it.
func (g guard) isOwnAdmin(object catalog.Object) bool {
	user, ok := object.(*catalog.User)
	return ok && user.Name == g.Name && slices.Contains(user.Spec.Groups, catalog.AdminGroup)
}

func (c *caller) denied(verb string, object catalog.Object) error {
	key := object.Key()
	return c.rights.Denied(catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(key.Kind)}, key)
}

// editing returns the guard's view of one edit, which has made objects that no one else sees yet.
func (g guard) editing(ctx context.Context, find catalog.Finder) editing {
	return editing{
		caller: g.caller, directory: editDirectory{Directory: g.view.Catalog, ctx: ctx, find: find},
		readers: func(repository string) ([]*catalog.FleetSource, error) { return find.SourcesReading(ctx, repository) },
	}
}

// editing decides about the objects of one edit.
type editing struct {
	caller    *caller
	directory authz.Directory
	// readers returns the fleet sources that read a repository. Nil: the edit is about neither
	// repositories nor image policies.
	readers func(repository string) ([]*catalog.FleetSource, error)
}

func (e editing) allows(verb string, object catalog.Object) bool {
	p := catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(object.Key().Kind)}
	return e.caller.rights.Allows(p, authz.ObjectOf(e.directory, object))
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
	from, to := documentsOf(current, next)
	done := map[optionsv1.Edit]bool{}
	for _, edit := range permission.Edits(from, to) {
		if done[edit.Needs] {
			continue // it is about the whole object
		}
		done[edit.Needs] = true
		if err := e.checkNeed(edit, current, next); err != nil {
			return err
		}
	}
	if done[optionsv1.Edit_EDIT_USE_REPOSITORY] || done[optionsv1.Edit_EDIT_USE_CONFIG_SET] || done[optionsv1.Edit_EDIT_USE_REFERENCE] {
		return e.checkUses(from, to, catalog.ProjectOf(next))
	}
	return nil
}

// documentsOf returns the documents of an object before and after an edit. The first one is empty for a
// new object.
func documentsOf(current, next catalog.Object) (from, to protoreflect.Message) {
	to = codec.Show(&fleet.Record{Object: next}).ProtoReflect()
	if current == nil {
		return to.Type().Zero(), to
	}
	return codec.Show(&fleet.Record{Object: current}).ProtoReflect(), to
}

// checkNeed returns an error unless the caller holds the right in the option beside a field.
func (e editing) checkNeed(edit permission.Edit, current, next catalog.Object) error {
	switch edit.Needs {
	case optionsv1.Edit_EDIT_FREE, optionsv1.Edit_EDIT_SERVER:
		return nil
	case optionsv1.Edit_EDIT_PAUSE, optionsv1.Edit_EDIT_CONFIRM:
		return nil // MayUpdate has asked for the verb
	case optionsv1.Edit_EDIT_USE_REPOSITORY, optionsv1.Edit_EDIT_USE_CONFIG_SET, optionsv1.Edit_EDIT_USE_REFERENCE:
		return nil // checkUses decides about the document as a whole: texts may move in it
	case optionsv1.Edit_EDIT_CLUSTER_ADMIN:
		return e.mustAdminister(catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{Names: []string{next.Key().Name}}})
	case optionsv1.Edit_EDIT_HUB_ADMIN:
		return e.mustAdminister(catalog.AccessBindingSpec{Hub: true})
	case optionsv1.Edit_EDIT_HUB_CLUSTERS:
		all := catalog.Permission{Verb: catalog.VerbUpdate, Resource: catalog.ResourceClusters}
		if e.caller.rights.Allows(all, authz.Object{}) {
			return nil
		}
		return &authz.EscalationError{Missing: fmt.Sprintf("the permission %q for the hub, which %s needs", all, edit.Path), Limit: e.caller.rights.LimitText()}
	case optionsv1.Edit_EDIT_FOREIGN_CLUSTER, optionsv1.Edit_EDIT_PROJECT_SERVICES, optionsv1.Edit_EDIT_SHARE, optionsv1.Edit_EDIT_LOOSEN,
		optionsv1.Edit_EDIT_ALL_PROJECTS, optionsv1.Edit_EDIT_GIVE, optionsv1.Edit_EDIT_DEFINE, optionsv1.Edit_EDIT_BECOME, optionsv1.Edit_EDIT_DIRECT:
		return e.checkKind(edit, current, next)
	case optionsv1.Edit_EDIT_UNSPECIFIED:
	}
	return e.undecided(edit)
}

// mustAdminister returns an error unless the caller could give the role admin in that scope.
func (e editing) mustAdminister(scope catalog.AccessBindingSpec) error {
	admin, _ := catalog.BuiltinRole(catalog.RoleAdmin)
	return e.caller.rights.MayGive(scope, admin)
}

// undecided returns the error for a field without an option in the protocol.
func (e editing) undecided(edit permission.Edit) error {
	return &authz.EscalationError{Missing: "a right to edit " + edit.Path + ", because this version of the hub has none for it", Limit: e.caller.rights.LimitText()}
}

// checkKind decides about needs that depend on what kind of object is edited.
func (e editing) checkKind(edit permission.Edit, current, next catalog.Object) error {
	if mayWrite := kindAnswers[next.Key().Kind].mayWrite; mayWrite != nil {
		return mayWrite(e, current, next)
	}
	return e.undecided(edit)
}

// mayWriteBinding returns an error unless the caller holds what the binding gives.
func (e editing) mayWriteBinding(_, next *catalog.AccessBinding) error {
	role, _ := e.directory.Role(next.Spec.Role)
	return e.caller.rights.MayGive(next.Spec, role)
}

func (e editing) mayWriteProject(current, next *catalog.Project) error {
	return e.caller.rights.MayChangeProject(current, next)
}

// mayWriteRole returns an error unless the caller holds what the role is made of.
func (e editing) mayWriteRole(_, next *catalog.Role) error {
	return e.caller.rights.MayDefine(next.Spec)
}

// mayWriteRule returns an error unless the caller holds what the users of the rule do, who are whom its editor lets in.
func (e editing) mayWriteRule(_, next *catalog.TrustRule) error {
	return e.caller.rights.MayBecome(fleet.TrustRules{View: e.caller.view}.RightsByRule(next))
}

// mayWriteUser returns an error unless the caller holds what the user does.
func (e editing) mayWriteUser(_, next *catalog.User) error {
	return e.caller.rights.MayBecome(e.caller.view.Accounts().Rights(fleet.Named(next.Name, next.Spec.Groups)))
}

func (e editing) mayWriteSource(current, next *catalog.FleetSource) error {
	return e.mayDirect(current, next)
}

// mayWriteRepository returns an error unless the caller holds the rights of the fleet sources that
// read the repository: its content decides what they write. So do tags of a repository of images,
// where a policy writes them into such a repository. A repository of images that another project
// shares was chosen by the policy's author, and its people are not held to rights that they do not
// know of.
func (e editing) mayWriteRepository(current, next *catalog.Repository) error {
	if current == nil {
		return nil
	}
	if err := e.mayDirectReaders(next.Name); err != nil {
		return err
	}
	for _, policy := range (fleet.ImagePolicies{View: e.caller.view}).ImagePolicies() {
		if policy.Spec.Repository != next.Name || policy.Spec.Write == nil || objectname.Project(policy.Name) != objectname.Project(next.Name) {
			continue
		}
		if err := e.mayDirectReaders(policy.Spec.Write.Repository); err != nil {
			return err
		}
	}
	return nil
}

// mayWriteImagePolicy returns an error unless the caller holds the rights of the fleet sources that read the
// repository which the policy writes to, before the edit or after.
func (e editing) mayWriteImagePolicy(current, next *catalog.ImagePolicy) error {
	for _, policy := range []*catalog.ImagePolicy{current, next} {
		if policy == nil || policy.Spec.Write == nil {
			continue
		}
		if err := e.mayDirectReaders(policy.Spec.Write.Repository); err != nil {
			return err
		}
	}
	return nil
}

// mayDirectReaders returns an error unless the caller holds the rights of the fleet sources that
// read a repository. It reads them inside the edit: the view of a replica may not have a source yet
// that another replica has just made.
func (e editing) mayDirectReaders(repository string) error {
	sources, err := e.readers(repository)
	if err != nil {
		return err
	}
	return e.mayDirect(sources...)
}

// mayDirect returns an error unless the caller holds everything that the fleet sources may do. Nil
// ones are left out.
func (e editing) mayDirect(sources ...*catalog.FleetSource) error {
	for _, source := range sources {
		if source == nil {
			continue
		}
		spec := source.Rights()
		role, _ := catalog.BuiltinRole(spec.Role)
		if err := e.caller.rights.MayGive(spec, role); err != nil {
			return err
		}
	}
	return nil
}

// mayWriteGlobal returns an error if a person who may not write services in the whole project
// writes a global service there. The project decides which clusters it reaches.
func (e editing) mayWriteGlobal(_, next *catalog.GlobalService) error {
	project := authz.OfProject(objectname.Project(next.Name))
	for _, verb := range []string{catalog.VerbCreate, catalog.VerbUpdate, catalog.VerbDelete} {
		p := catalog.Permission{Verb: verb, Resource: catalog.ResourceServices}
		if !e.caller.rights.Allows(p, project) {
			return &authz.EscalationError{
				Missing: fmt.Sprintf("the permission %q in the whole project %s, which a global service needs", p, project.Project), Limit: e.caller.rights.LimitText(),
			}
		}
	}
	return nil
}

// mayWriteService returns an error if a person who may not create services in the project creates
// one there because they may do so in its cluster, which belongs to another project: the limits of
// the one would not hold for the people of the other.
func (e editing) mayWriteService(current, next *catalog.Service) error {
	project := objectname.Project(next.Name)
	create := catalog.Permission{Verb: catalog.VerbCreate, Resource: catalog.ResourceServices}
	inProject := authz.Object{Project: project, Service: next.Name, Namespace: next.Spec.Wanted().NamespaceOrDefault()}
	if current != nil || objectname.Project(next.Spec.Cluster) == project || e.caller.rights.Allows(create, inProject) {
		return nil
	}
	return e.caller.denied(catalog.VerbCreate, next)
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
	object, err := d.find.Get(d.ctx, catalog.Key{Kind: catalog.KindCluster, Name: name})
	cluster, ok := object.(*catalog.Cluster)
	return cluster, ok && err == nil
}

// Role implements authz.Directory. The edit may have changed the role, so its own state comes first.
func (d editDirectory) Role(name catalog.RoleName) (catalog.RoleSpec, bool) {
	if spec, ok := catalog.BuiltinRole(name); ok {
		return spec, true
	}
	object, err := d.find.Get(d.ctx, catalog.Key{Kind: catalog.KindRole, Name: string(name)})
	role, ok := object.(*catalog.Role)
	if !ok || err != nil {
		return catalog.RoleSpec{}, false
	}
	return role.Spec, true
}
