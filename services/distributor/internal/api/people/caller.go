// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// caller is a person who makes a call, with what they may do now. It is for one goroutine.
type caller struct {
	identity.Identity
	person fleet.Person
	view   *fleet.View
	rights *authz.Rights
	// access is who may make the call, from its option.
	access permission.Access
}

// needs returns the permission that the call's option names. Its resource is permission.Each if
// each object needs the permission of its own kind.
func (c *caller) needs() catalog.Permission {
	return catalog.Permission{Verb: c.access.Verb, Resource: c.access.Resource}
}

// may reports whether the caller may do something to an object.
func (c *caller) may(verb string, object catalog.Object) bool {
	p := catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(object.Key().Kind)}
	return c.rights.Allows(p, authz.ObjectOf(c.view.Catalog, object))
}

// sees reports whether the caller may know of an object. Any other object does not exist for them.
func (c *caller) sees(object catalog.Object) bool { return c.visible(catalog.VerbGet)(object) }

// visible returns a function that reports whether the caller may get, list or watch an object: by
// their bindings, because it is about themselves, because a service that they may see is made of
// it, or because it waits for their approval. The function decides once for each cluster and
// namespace. It is for one goroutine.
func (c *caller) visible(verb string) func(catalog.Object) bool {
	allows := c.allower(verb)
	return c.visibleIf(verb, allows, c.reader(verb, func(service *catalog.Service) bool { return allows(service) }))
}

// allower returns a function that reports whether the caller's bindings let them get, list or watch an
// object. It is for one goroutine.
func (c *caller) allower(verb string) func(catalog.Object) bool {
	filters := map[catalog.Kind]func(authz.Object) bool{}
	var last catalog.Kind // most callers ask about one kind
	var allows func(authz.Object) bool
	return func(object catalog.Object) bool {
		if kind := object.Key().Kind; kind != last || allows == nil {
			if allows = filters[kind]; allows == nil {
				allows = c.rights.Filter(catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(kind)})
				filters[kind] = allows
			}
			last = kind
		}
		return allows(authz.ObjectOf(c.view.Catalog, object))
	}
}

// visibleIf is visible for what bindings allow, and repositories that isRead reports as made into
// services that the caller may see.
func (c *caller) visibleIf(verb string, allows func(catalog.Object) bool, isRead func(repository string) bool) func(catalog.Object) bool {
	return func(object catalog.Object) bool {
		if allows(object) {
			return true
		}
		sees := kindAnswers[object.Key().Kind].sees
		return sees != nil && sees(sight{caller: c, verb: verb, isRead: isRead}, object)
	}
}

// sight is a person's view of an object by other things than bindings about it.
type sight struct {
	*caller
	verb   string
	isRead func(repository string) bool
}

// isLeft reports whether the limit of the caller's token leaves them what needs no binding.
func (s sight) isLeft(object catalog.Object) bool {
	p := catalog.Permission{Verb: s.verb, Resource: catalog.ResourceOf(object.Key().Kind)}
	return s.rights.LimitAllows(p, authz.ObjectOf(s.view.Catalog, object))
}

// user reports whether the user is the caller.
func (s sight) user(user *catalog.User) bool { return user.Name == s.Name && s.isLeft(user) }

// binding reports whether the binding names the caller.
func (s sight) binding(binding *catalog.AccessBinding) bool {
	return names(binding, s.Identity) && s.isLeft(binding)
}

// project reports whether the caller holds the permission in the project: they may read what the project is.
func (s sight) project(project *catalog.Project) bool {
	return s.rights.Allows(catalog.Permission{Verb: s.verb, Resource: catalog.ResourceProjects}, authz.OfProject(project.Name))
}

// repository reports whether a service that the caller sees is made of the repository.
func (s sight) repository(repository *catalog.Repository) bool { return s.isRead(repository.Name) }

// policy reports whether the policy asks a group of the caller's to approve.
func (s sight) policy(policy *catalog.RolloutPolicy) bool {
	return policy.HasApprover(s.Groups) && s.isLeft(policy)
}

// accessRequest reports whether the caller made the request, or could give what it asks for. Whether they could is
// decided as of the time when the request was made, so that it does not change as time passes.
func (s sight) accessRequest(request *catalog.AccessRequest) bool {
	if request.Spec.Requester == s.Name {
		return s.isLeft(request)
	}
	binding := request.BindingAt(request.CreatedAt)
	edit := editing{caller: s.caller, directory: s.view.Catalog}
	return edit.allows(catalog.VerbCreate, binding) && edit.mayWriteBinding(nil, binding) == nil
}

// manyReaders is how many readers of repositories are checked one by one, before a caller's own
// services are.
const manyReaders = 1000

// reader returns a function that reports whether a service that keep selects is made of a
// repository. People who may see few services often list many repositories, or at one that all
// services are made of; beyond manyReaders it therefore reads their services once. It is for one
// goroutine.
func (c *caller) reader(verb string, keep func(*catalog.Service) bool) func(repository string) bool {
	looked := 0
	var own map[string]struct{}
	return func(repository string) bool {
		if own == nil && looked > manyReaders {
			if scope := c.scope(verb); !scope.Everything {
				own = c.repositoriesOf(*scope, keep)
			}
		}
		if own != nil {
			_, ok := own[repository]
			return ok
		}
		readers := c.view.Catalog.Readers(c.view.Catalog.SourcesOf(repository)...)
		looked += len(readers)
		return slices.ContainsFunc(readers, keep)
	}
}

// repositoriesOf returns the repositories that the services of a scope are made of which keep selects.
func (c *caller) repositoriesOf(scope authz.Scope, keep func(*catalog.Service) bool) map[string]struct{} {
	own := map[string]struct{}{}
	for _, service := range c.view.Catalog.ServicesWithin(scope) {
		if !keep(service) {
			continue
		}
		for _, source := range service.Spec.Sources {
			own[source.Repository] = struct{}{}
		}
	}
	return own
}

// scope bounds the services that the caller may get, list or watch.
func (c *caller) scope(verb string) *authz.Scope {
	return new(c.rights.ScopeOf(catalog.Permission{Verb: verb, Resource: catalog.ResourceOf(catalog.KindService)}))
}

// names reports whether the binding names the person or one of its groups.
func names(binding *catalog.AccessBinding, id identity.Identity) bool {
	return slices.Contains(binding.Spec.Users, id.Name) ||
		slices.ContainsFunc(binding.Spec.Groups, func(group string) bool { return slices.Contains(id.Groups, group) })
}

// allows reports whether the caller has the call's permission for an object.
func (c *caller) allows(object catalog.Object) bool {
	p := c.needs()
	if p.Resource == permission.Each {
		p.Resource = catalog.ResourceOf(object.Key().Kind)
	}
	return c.rights.Allows(p, authz.ObjectOf(c.view.Catalog, object))
}

// shown returns the caller's view of a record. The authors of an object and of its changes, and the
// reasons, are for people who may change it. Of a project, they see the largest bundles if they may
// read its repositories. Of a binding that only names them, they do not see other people; of a
// repository that only a service of theirs is made of, not how it is reached; and clusters count
// the services that they may see.
func (c *caller) shown(record fleet.Record) fleet.Record {
	if record.Object == nil {
		return record
	}
	if !c.may(catalog.VerbUpdate, record.Object) {
		record.Object = catalog.WithoutAuthors(record.Object)
	}
	if trim := kindAnswers[record.Object.Key().Kind].trim; trim != nil {
		return trim(c, record)
	}
	return record
}

func trimBinding(c *caller, binding *catalog.AccessBinding, record fleet.Record) fleet.Record {
	if c.may(catalog.VerbGet, binding) {
		return record
	}
	own := *binding
	own.Spec.Users = slices.DeleteFunc(slices.Clone(binding.Spec.Users), func(user string) bool { return user != c.Name })
	own.Spec.Groups = slices.DeleteFunc(slices.Clone(binding.Spec.Groups), func(group string) bool { return !slices.Contains(c.Groups, group) })
	record.Object = &own
	return record
}

func trimRepository(c *caller, repository *catalog.Repository, record fleet.Record) fleet.Record {
	if c.may(catalog.VerbGet, repository) {
		return record
	}
	public := &catalog.Repository{Metadata: repository.Metadata}
	public.Spec.Type, public.Spec.URL = repository.Spec.Type, repository.Spec.URL
	record.Object = public
	return record
}

func trimProject(c *caller, project *catalog.Project, record fleet.Record) fleet.Record {
	if !c.rights.Allows(catalog.Permission{Verb: catalog.VerbGet, Resource: catalog.ResourceRepositories}, authz.OfProject(project.Name)) {
		record.Bundles.Largest = nil
	}
	return record
}

func trimCluster(c *caller, cluster *catalog.Cluster, record fleet.Record) fleet.Record {
	if !c.rights.Allows(catalog.Permission{Verb: catalog.VerbGet, Resource: catalog.ResourceServices}, authz.OfEveryService(cluster)) {
		record.Cluster.Services, record.Cluster.ServicesHealthy = c.count(cluster)
	}
	return record
}

// count counts the services of a cluster that the caller may see, and the healthy ones of them. It
// decides for each project and namespace, and for each service that a binding names.
func (c *caller) count(cluster *catalog.Cluster) (total, healthy int) {
	get := catalog.Permission{Verb: catalog.VerbGet, Resource: catalog.ResourceServices}
	allows := func(t fleet.Tally) bool {
		return c.rights.Allows(get, authz.OfServicesIn(cluster, t.Project, t.Namespace))
	}
	add := func(t fleet.Tally) {
		total += t.Total
		healthy += t.Healthy
	}
	for _, tally := range c.view.Tallies.TalliesOf(cluster.Name) {
		if allows(tally) {
			add(tally)
		}
	}
	named := map[string]struct{}{}
	for _, path := range c.rights.ScopeOf(get).Services {
		local, on := objectname.SplitService(path)
		if on == "" || on == cluster.Name {
			named[objectname.ServicePath(local, cluster.Name)] = struct{}{}
		}
	}
	for name := range named {
		one := c.view.Tallies.TallyOf(cluster.Name, name)
		if one.Total == 0 || allows(one) {
			continue
		}
		if service, ok := c.view.Catalog.Service(name); ok && c.may(catalog.VerbGet, service) {
			add(one)
		}
	}
	return total, healthy
}

// only returns the service of a name without a cluster that the caller may see. ok is false if there is
// none. The error is a *catalog.AmbiguousError.
func (c *caller) only(key catalog.Key) (_ catalog.Key, ok bool, err error) {
	var found []string
	sees := c.visible(catalog.VerbGet)
	for _, service := range fleet.ServicesNamed(c.view.Catalog, key.Name) {
		if !sees(service) && !c.allows(service) {
			continue
		}
		if found = append(found, service.Name); len(found) > maxCandidates {
			break
		}
	}
	switch {
	case len(found) == 0:
		return key, false, nil
	case len(found) == 1:
		return catalog.Key{Kind: key.Kind, Name: found[0]}, true, nil
	}
	n := min(len(found), maxCandidates)
	return key, true, &catalog.AmbiguousError{Key: key, Services: found[:n], More: n < len(found)}
}

// maxCandidates bounds the services that an ambiguous name lists.
const maxCandidates = 10
