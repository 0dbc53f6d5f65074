// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// ruleModel is the model of rights in docs/guides/access.md, written a second time for tests,
// without package authz. Objects are named as people write them: "shop/app", or "app" in the
// project default.
type ruleModel struct {
	projects     map[string]bool
	clusters     map[string]map[string]string // labels
	repositories map[string]bool
	services     map[string]serviceModel
	users        map[string][]string // groups
	roles        map[string][]string // permissions, such as "get services"
	bindings     map[string]*fleetv1.AccessBindingSpec
}

type serviceModel struct{ cluster, repository, namespace string }

func newRuleModel() *ruleModel {
	return &ruleModel{
		projects: map[string]bool{"default": true}, clusters: map[string]map[string]string{}, repositories: map[string]bool{},
		services: map[string]serviceModel{}, users: map[string][]string{}, roles: map[string][]string{}, bindings: map[string]*fleetv1.AccessBindingSpec{},
	}
}

// builtinPermissions are the permissions of the built-in roles in these tests.
func builtinPermissions(role typev1.AccessRole) []string {
	var all []string
	add := func(verbs, resources string) {
		for verb := range strings.FieldsSeq(verbs) {
			for resource := range strings.FieldsSeq(resources) {
				all = append(all, verb+" "+resource)
			}
		}
	}
	const viewer, operator, editor, admin = 1, 2, 3, 4
	rank := map[typev1.AccessRole]int{ // each includes those before it; the numbers of the protocol have another order
		typev1.AccessRole_ACCESS_ROLE_VIEWER: viewer, typev1.AccessRole_ACCESS_ROLE_OPERATOR: operator,
		typev1.AccessRole_ACCESS_ROLE_EDITOR: editor, typev1.AccessRole_ACCESS_ROLE_ADMIN: admin,
	}[role]
	if rank >= viewer {
		add("get list watch", "clusters repositories services roles projects")
	}
	if rank >= operator {
		add("sync pause confirm rollback preview", "services")
	}
	if rank >= editor {
		add("create update delete", "services repositories")
		add("use", "repositories")
	}
	if rank >= admin {
		add("create update delete", "clusters users roles projects")
		add("get list watch", "users")
	}
	return all
}

// thing is an object of the model, as a scope sees it.
type thing struct{ kind, name string }

func projectOfName(name string) string {
	name, _, _ = strings.Cut(name, "@")
	project, _, ok := strings.Cut(name, "/")
	if !ok {
		return "default"
	}
	return project
}

// onCluster returns the name of a service with its cluster, as people write it outside of its project.
func onCluster(service, cluster string) string {
	project := projectOfName(service)
	switch own := strings.TrimPrefix(cluster, project+"/"); {
	case own != cluster || project == "default":
		return service + "@" + own
	case !strings.Contains(cluster, "/"):
		return service + "@default/" + cluster
	}
	return service + "@" + cluster
}

// withoutCluster returns the name of a service on any cluster.
func withoutCluster(service string) string {
	name, _, _ := strings.Cut(service, "@")
	return name
}

// bound are the bindings that name a person or a group of theirs.
func (m *ruleModel) bound(person string) []*fleetv1.AccessBindingSpec {
	var all []*fleetv1.AccessBindingSpec
	for _, name := range slices.Sorted(maps.Keys(m.bindings)) {
		spec := m.bindings[name]
		if slices.Contains(spec.GetUsers(), person) || slices.ContainsFunc(spec.GetGroups(), func(g string) bool { return slices.Contains(m.users[person], g) }) {
			all = append(all, spec)
		}
	}
	return all
}

// inScope reports whether a binding is about an object.
func (m *ruleModel) inScope(spec *fleetv1.AccessBindingSpec, o thing) bool {
	if spec.GetHub() {
		return true
	}
	isOfProject := func(project string) bool {
		return spec.GetProjects().GetAll() || slices.Contains(spec.GetProjects().GetNames(), project)
	}
	coversCluster := func(name string) bool {
		c := spec.GetClusters()
		labels := c.GetLabels().GetMatchLabels()
		hasAll := len(labels) > 0
		for key, value := range labels {
			hasAll = hasAll && m.clusters[name][key] == value
		}
		return c.GetAll() || slices.Contains(c.GetNames(), name) || hasAll
	}
	switch o.kind {
	case "clusters":
		return isOfProject(projectOfName(o.name)) || coversCluster(o.name)
	case "services":
		return isOfProject(projectOfName(o.name)) || slices.Contains(spec.GetServices(), o.name) || slices.Contains(spec.GetServices(), withoutCluster(o.name)) || coversCluster(m.services[o.name].cluster)
	case "repositories":
		return isOfProject(projectOfName(o.name)) || slices.Contains(spec.GetRepositories(), o.name)
	case "projects":
		return isOfProject(o.name)
	}
	return false // users and roles belong to the hub
}

// selects reports whether the rules of a binding let a verb on an object through.
func (m *ruleModel) selects(spec *fleetv1.AccessBindingSpec, verb string, o thing) bool {
	for _, rule := range spec.GetRules() {
		isVerb := len(rule.GetVerbs()) == 0 || slices.Contains(rule.GetVerbs(), verb)
		isPlace := len(rule.GetNamespaces()) == 0 || o.kind == "services" && slices.Contains(rule.GetNamespaces(), m.services[o.name].namespace)
		if isVerb && isPlace {
			return true
		}
	}
	return len(spec.GetRules()) == 0
}

// may reports whether bindings give a person the verb on an object.
func (m *ruleModel) may(person, verb string, o thing) bool {
	isRead := verb == "get" || verb == "list" || verb == "watch"
	return slices.ContainsFunc(m.bound(person), func(spec *fleetv1.AccessBindingSpec) bool {
		if !m.inScope(spec, o) {
			return false
		}
		if isRead && o.kind == "clusters" {
			return true // everybody whom a binding lets into a cluster sees it
		}
		held := m.roles[spec.GetRoleName()]
		if spec.GetRoleName() == "" {
			held = builtinPermissions(spec.GetRole())
		}
		return slices.Contains(held, verb+" "+o.kind) && m.selects(spec, verb, o)
	})
}

// sees reports whether an object is there for a person who gets, lists or watches it.
func (m *ruleModel) sees(person, verb string, o thing) bool {
	if m.may(person, verb, o) || o.kind == "users" && o.name == person {
		return true
	}
	if o.kind != "repositories" {
		return false
	}
	for name, service := range m.services {
		if service.repository == o.name && m.may(person, verb, thing{"services", name}) {
			return true
		}
	}
	return false
}

// names returns the objects of a kind, sorted.
func (m *ruleModel) names(kind string) []string {
	switch kind {
	case "projects":
		return slices.Sorted(maps.Keys(m.projects))
	case "clusters":
		return slices.Sorted(maps.Keys(m.clusters))
	case "repositories":
		return slices.Sorted(maps.Keys(m.repositories))
	case "services":
		return slices.Sorted(maps.Keys(m.services))
	case "users":
		return slices.Sorted(maps.Keys(m.users))
	}
	return slices.Sorted(maps.Keys(m.roles))
}

// kindsOfModel are the kinds that the model knows, beside bindings.
func kindsOfModel() []string {
	return []string{"clusters", "projects", "repositories", "roles", "services", "users"}
}

// visible returns what a person sees by a verb, as "KIND NAME", sorted.
func (m *ruleModel) visible(person, verb string) []string {
	var all []string
	for _, kind := range kindsOfModel() {
		for _, name := range m.names(kind) {
			if m.sees(person, verb, thing{kind, name}) {
				all = append(all, kind+" "+name)
			}
		}
	}
	return all
}

// servicesOn counts the services of a cluster that a person may get.
func (m *ruleModel) servicesOn(person, cluster string) (n int) {
	for name, service := range m.services {
		if service.cluster == cluster && m.may(person, "get", thing{"services", name}) {
			n++
		}
	}
	return n
}

// modelEdit is one random edit: how the hub is told, and what it does to the model if the hub takes it.
type modelEdit struct {
	what     string
	document *fleetv1.Document
	// deletes is the kind and name to delete, where document is nil.
	deletes thing
	apply   func(*ruleModel)
}

func pick[T any](r *rand.Rand, items ...T) T { return items[r.IntN(len(items))] }

// some returns a random part of the items, in their order.
func some[T any](r *rand.Rand, items ...T) []T {
	return slices.DeleteFunc(slices.Clone(items), func(T) bool { return r.IntN(2) == 0 })
}

// placed puts the document of "PROJECT/NAME" into its project.
func placed(name string, build func(name string) *fleetv1.Document) *fleetv1.Document {
	project, short, ok := strings.Cut(name, "/")
	if !ok {
		return build(name)
	}
	return in(project, build(short))
}

// nextEdit returns a random edit.
func nextEdit(r *rand.Rand) modelEdit {
	cluster, repository := pick(r, "one", "two", "shop/own"), pick(r, "demo", "shop/own")
	short := pick(r, "app", "web", "shop/app", "shop/far")
	service := onCluster(short, cluster)
	switch r.IntN(12) {
	case 0, 1:
		labels := map[string]string{"stage": pick(r, "dev", "prod")}
		document := placed(cluster, clusterDocument)
		document.GetCluster().Metadata.Labels = labels
		return modelEdit{what: "label " + cluster + " " + labels["stage"], document: document, apply: func(m *ruleModel) { m.clusters[cluster] = labels }}
	case 2, 3:
		s := serviceModel{cluster: cluster, repository: repository, namespace: pick(r, "n1", "n2")}
		document := placed(short, func(name string) *fleetv1.Document {
			return inNamespace(serviceDocument(name, "default/"+cluster, "default/"+repository, "a"), s.namespace)
		})
		for _, reference := range []*string{&document.GetService().Spec.Cluster, &document.GetService().Spec.Sources[0].Repository} {
			*reference = strings.Replace(*reference, "default/shop/", "shop/", 1)
		}
		return modelEdit{what: "put " + service + " " + s.repository + " " + s.namespace, document: document, apply: func(m *ruleModel) { m.services[service] = s }}
	case 4:
		return modelEdit{what: "delete service " + service, deletes: thing{"services", service}, apply: func(m *ruleModel) { delete(m.services, service) }}
	case 5:
		if r.IntN(2) == 0 {
			return modelEdit{what: "delete cluster " + cluster, deletes: thing{"clusters", cluster}, apply: func(m *ruleModel) { delete(m.clusters, cluster) }}
		}
		return modelEdit{what: "delete repository " + repository, deletes: thing{"repositories", repository}, apply: func(m *ruleModel) { delete(m.repositories, repository) }}
	case 6:
		return modelEdit{what: "put " + repository, document: placed(repository, repositoryDocument), apply: func(m *ruleModel) { m.repositories[repository] = true }}
	case 7:
		user, groups := pick(r, "ada", "bob", "cyd"), some(r, "g1", "g2")
		return modelEdit{
			what: "groups of " + user + " " + strings.Join(groups, ","), apply: func(m *ruleModel) { m.users[user] = groups },
			document: &fleetv1.Document{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: user}, Spec: &fleetv1.UserSpec{Groups: groups}}}},
		}
	case 8:
		verbs, resources := pick(r, []string{"get"}, []string{"get", "list", "watch"}, []string{"sync", "update"}), pick(r, []string{"services"}, []string{"repositories"}, []string{"projects", "services"})
		var held []string
		for _, verb := range verbs {
			for _, resource := range resources {
				held = append(held, verb+" "+resource)
			}
		}
		return modelEdit{
			what: "role special " + strings.Join(held, ", "), apply: func(m *ruleModel) { m.roles["special"] = held },
			document: &fleetv1.Document{Object: &fleetv1.Document_Role{Role: &fleetv1.Role{
				Metadata: &typev1.Metadata{Name: "special"}, Spec: &fleetv1.RoleSpec{Permissions: []*fleetv1.RolePermission{{Verbs: verbs, Resources: resources}}},
			}}},
		}
	case 9:
		binding := pick(r, "b0", "b1", "b2", "b3")
		return modelEdit{what: "delete binding " + binding, deletes: thing{"accessbindings", binding}, apply: func(m *ruleModel) { delete(m.bindings, binding) }}
	}
	return bindingEdit(r)
}

func bindingEdit(r *rand.Rand) modelEdit {
	name := pick(r, "b0", "b1", "b2", "b3")
	spec := &fleetv1.AccessBindingSpec{Users: some(r, "ada", "bob"), Groups: []string{pick(r, "g1", "g2")}}
	if role := r.IntN(5); role == 0 {
		spec.RoleName = "special"
	} else {
		spec.Role = typev1.AccessRole(role)
	}
	switch r.IntN(7) {
	case 0:
		spec.Hub = true
	case 1:
		spec.Projects = &fleetv1.ProjectSelection{Names: []string{pick(r, "default", "shop")}}
	case 2:
		spec.Clusters = named(pick(r, "one", "two", "shop/own"))
	case 3:
		spec.Clusters = &fleetv1.ClusterSelection{Labels: &fleetv1.LabelSelector{MatchLabels: map[string]string{"stage": pick(r, "dev", "prod")}}}
	case 4:
		spec.Services = []string{pick(r, "app", "web", "shop/app", "shop/far", "app@one", "web@shop/own", "shop/app@own", "shop/far@default/two")}
	case 5:
		spec.Repositories = []string{pick(r, "demo", "shop/own")}
	default:
		spec.Clusters, spec.Services = named("one"), []string{"shop/far"}
	}
	switch r.IntN(4) {
	case 0:
		spec.Rules = []*typev1.AccessRule{{Namespaces: []string{"n1"}}}
	case 1:
		spec.Rules = []*typev1.AccessRule{{Verbs: []string{"get"}}}
	}
	return modelEdit{
		what: "bind " + name + " " + spec.String(), apply: func(m *ruleModel) { m.bindings[name] = spec },
		document: &fleetv1.Document{Object: &fleetv1.Document_AccessBinding{AccessBinding: &fleetv1.AccessBinding{Metadata: &typev1.Metadata{Name: name}, Spec: spec}}},
	}
}
