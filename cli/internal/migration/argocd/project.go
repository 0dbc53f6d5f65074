// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

// appProject makes a project of an AppProject.
func appProject(o migration.Object, f *fleet) migration.Entry {
	spec := o.Fields.Part("spec")
	switch {
	case f.settings.Project != "":
		o.Fields.Note("", migration.Refused, "everything is imported into the project "+f.settings.Project+", as you have said; its limits are its own")
		return o.Finish()
	case f.project(o.Name).name == "":
		return appProjectDefault(o, f)
	}
	own := f.project(o.Name)
	if own.limits == nil || own.limits.origin != o.Fields {
		o.Fields.Note("", migration.Refused, "another AppProject has the same name at the hub")
		return o.Finish()
	}
	if own.limits.tooLong != "" {
		spec.Note(own.limits.tooLong, migration.Refused, fmt.Sprintf("a limit has at most %d patterns; its Applications are not imported either", maxAllowed))
		return o.Finish()
	}
	given := own.limits.wire
	o.Fields.Note("spec.destinations", migration.Check, "lend the clusters to the project: add it to spec.shares of the project that has them (docs/guides/projects.md)")
	noteUnlimited(spec)
	if proto.Size(given) == 0 {
		given = nil
	}
	d := &fleetv1.Document{Object: &fleetv1.Document_Project{Project: &fleetv1.Project{
		Metadata: &typev1.Metadata{Name: own.name},
		Spec:     &fleetv1.ProjectSpec{Description: spec.Text("description"), Limits: given},
	}}}
	if !accepted(spec, d) {
		return o.Finish()
	}
	own.documents = append(own.documents, d)
	return o.Finish(d)
}

// appProjectDefault returns the entry of the AppProject default. Every hub has a project default, which stands for an
// AppProject without limits, as Argo CD makes it. Limits are refused: an administrator gives them to the hub's project.
func appProjectDefault(o migration.Object, f *fleet) migration.Entry {
	if proto.Size(limitsOf(o, f).wire) > 0 {
		o.Fields.Note("", migration.Refused, "the project default exists at the hub; give it these limits with leat edit project/default, if it should have them")
		return o.Finish()
	}
	spec := o.Fields.Part("spec")
	spec.Skip("description")
	noteUnlimited(spec)
	return o.Finish(&fleetv1.Document{Object: &fleetv1.Document_Project{Project: &fleetv1.Project{Metadata: &typev1.Metadata{Name: objectname.Default}}}})
}

// noteUnlimited notes the fields of an AppProject for which a project has no limit.
func noteUnlimited(spec *migration.Fields) {
	spec.Skip("syncWindows") // they are the services'
	spec.Without(migration.Check, "give people these rights with documents of the kinds Role and AccessBinding (docs/guides/access.md)", "roles")
	spec.Without(migration.Check, "set spec.verification of the repositories (docs/guides/signatures.md)", "signatureKeys", "sourceIntegrity")
	spec.Without(migration.Check, "set policy.serviceAccount of the services", "destinationServiceAccounts")
	spec.Without(migration.Missing, "a project limits kinds without a namespace alone, by what it allows; bind the services' accounts to roles that allow no more",
		"clusterResourceBlacklist", "namespaceResourceBlacklist", "namespaceResourceWhitelist")
	spec.Without(migration.Needless, "an agent deletes only what its inventory has, so nothing is orphaned", "orphanedResources")
	spec.Without(migration.Needless, "documents of a project are written by those who may", "sourceNamespaces", "permitOnlyProjectScopedClusters")
}

// allow returns the list of what patterns allow, nil for everything. Argo CD's begin with ! where they forbid.
func allow(fields *migration.Fields, name string, patterns []string) *typev1.AllowList {
	list := &typev1.AllowList{}
	for _, pattern := range patterns {
		switch {
		case strings.HasPrefix(pattern, "!"):
			fields.Note(name, migration.Missing, "lists allow, and do not forbid: leave out what matches "+pattern)
		case pattern == "":
		case pattern == "*" || pattern == "**":
			return nil
		default:
			list.Allow = append(list.Allow, pattern)
		}
	}
	return list
}

// maxAllowed is the number of patterns of one limit at the hub.
const maxAllowed = 256

// limits are the limits of an AppProject, as a document has them, and compiled for the Applications of an import.
type limits struct {
	// origin has the fields of the AppProject.
	origin                             *migration.Fields
	wire                               *fleetv1.ProjectLimits
	repositories, clusters, namespaces allowed
	// tooLong is the field that has more patterns than a limit. Nothing is allowed then.
	tooLong string
}

// allowed is a list of what patterns allow.
type allowed struct {
	isAny    bool
	patterns []*regexp.Regexp
}

func (a allowed) allows(text string) bool {
	return a.isAny || slices.ContainsFunc(a.patterns, func(r *regexp.Regexp) bool { return r.MatchString(text) })
}

// compile compiles a list as a hub understands it: * is any text without a slash, and ** any text.
func compile(list *typev1.AllowList) allowed {
	made := allowed{isAny: list == nil}
	for _, pattern := range list.GetAllow() {
		text := strings.NewReplacer(`\*\*`, ".*", `\*`, "[^/]*").Replace(regexp.QuoteMeta(pattern))
		if r, err := regexp.Compile("^(?s:" + text + ")$"); err == nil {
			made.patterns = append(made.patterns, r)
		}
	}
	return made
}

// limitsOf reads the limits of an AppProject.
func limitsOf(o migration.Object, f *fleet) *limits {
	spec := o.Fields.Part("spec")
	l := &limits{origin: o.Fields, wire: &fleetv1.ProjectLimits{
		Repositories: allow(spec, "sourceRepos", spec.Texts("sourceRepos")), ClusterScopedKinds: clusterKinds(spec.Parts("clusterResourceWhitelist")),
	}}
	destinations(f.project(o.Name), spec.Parts("destinations"), l.wire, spec, f)
	for field, list := range map[string]*typev1.AllowList{
		"sourceRepos": l.wire.GetRepositories(), "clusterResourceWhitelist": l.wire.GetClusterScopedKinds(), "destinations": l.wire.GetClusters(),
		"destinations[].namespace": l.wire.GetNamespaces(),
	} {
		if len(list.GetAllow()) > maxAllowed {
			l.tooLong = max(l.tooLong, field)
		}
	}
	if l.tooLong == "" {
		l.repositories, l.clusters, l.namespaces = compile(l.wire.GetRepositories()), compile(l.wire.GetClusters()), compile(l.wire.GetNamespaces())
	}
	return l
}

// destinations sets the clusters and the namespaces that a project may deliver to.
func destinations(own *project, all []*migration.Fields, limits *fleetv1.ProjectLimits, spec *migration.Fields, f *fleet) {
	var clusters, namespaces []string
	for _, d := range all {
		namespaces = append(namespaces, d.Text("namespace"))
		if d.Text("server") == "*" || d.Text("name") == "*" {
			d.Skip("server", "name")
			clusters = append(clusters, "**")
			continue
		}
		theirs, reference, isKnown := f.destination(d)
		if !isKnown {
			d.Note("", migration.Check, "say with --map-cluster which cluster at the hub is "+theirs)
			continue
		}
		clusters = append(clusters, f.from(own, reference))
	}
	slices.Sort(clusters)
	slices.Sort(namespaces)
	limits.Clusters = allow(spec, "destinations", slices.Compact(clusters))
	limits.Namespaces = allow(spec, "destinations", slices.Compact(namespaces))
	if limits.GetClusters() != nil && limits.GetNamespaces() != nil && len(all) > 1 {
		spec.Note("destinations", migration.Differs, "each namespace is allowed in each of the clusters")
	}
}

// clusterKinds returns the kinds without a namespace that are allowed. Without a list, none is.
func clusterKinds(all []*migration.Fields) *typev1.AllowList {
	list := &typev1.AllowList{}
	for _, fields := range all {
		kind, group := fields.Text("kind"), fields.Text("group")
		fields.Skip("name")
		switch {
		case kind == "*" && group == "*":
			return nil
		case group == "":
			list.Allow = append(list.Allow, kind)
		default:
			list.Allow = append(list.Allow, kind+"."+group)
		}
	}
	return list
}
