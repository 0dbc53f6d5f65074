// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
)

const (
	group = "argoproj.io"
	// secretType is the label of Secrets that hold repositories and clusters.
	secretType = "argocd.argoproj.io/secret-type"
	// inCluster and inClusterURL are the cluster where Argo CD runs.
	inCluster    = "in-cluster"
	inClusterURL = "https://kubernetes.default.svc"
)

const (
	maxName      = 253      // bytes of a name in Kubernetes
	maxItems     = 100_000  // of lists, in all parameters of charts together
	maxTemplated = 64 << 20 // bytes that all templates together may become
)

// fleet holds what is known of the fleet that Argo CD delivers to, and the documents that were made.
type fleet struct {
	settings migration.Settings
	// projects are by their names at the hub. order is that in which they were first named.
	projects map[string]*project
	order    []string
	// services gives names, by Leat's project.
	services map[string]*migration.Services
	// servers are the names of clusters by the URLs of their API servers. The cluster where Argo CD runs has none.
	servers map[string]string
	// sets are what ApplicationSets became, and applied what Applications deliver of Argo CD itself: see appliedBy.
	sets    map[string][]*fleetv1.Document
	applied map[string]string
	// clusters, and services with global services, in the order of their objects.
	clusters, delivered []*fleetv1.Document
	// items counts the items of lists that parameters of charts have made, and templated the bytes that templates have.
	items, templated int
}

// project is what is known of an AppProject.
type project struct {
	// name is Leat's. Empty: default.
	name         string
	documents    []*fleetv1.Document
	repositories *migration.Repositories
	windows      []projectWindow
	// limits are those of its AppProject. Nil: it has none.
	limits *limits
	// used has the names of repositories that something needs.
	used map[string]bool
}

// upstreams returns the repositories that something needs. An Application that is refused later may have named others.
func (p *project) upstreams() []*fleetv1.Document {
	return slices.DeleteFunc(slices.Clone(p.repositories.Documents()), func(d *fleetv1.Document) bool {
		return !p.used[d.GetRepository().GetMetadata().GetName()]
	})
}

// deliver keeps the document of a service, or of a global one.
func (f *fleet) deliver(p *project, d *fleetv1.Document) {
	f.delivered = append(f.delivered, d)
	spec := d.GetService().GetSpec()
	if spec == nil {
		spec = d.GetGlobalService().GetSpec().GetTemplate()
	}
	for _, source := range spec.GetSources() {
		p.used[source.GetRepository()] = true
	}
}

// project returns the project of Argo CD's name for it. All are one if a person has said which.
func (f *fleet) project(theirs string) *project {
	name := cmp.Or(f.settings.Project, migration.Label(theirs))
	if name == objectname.Default {
		name = ""
	}
	p := f.projects[name]
	if p == nil {
		p = &project{name: name, repositories: migration.NewRepositories(name), used: map[string]bool{}}
		f.projects[name] = p
		f.order = append(f.order, name)
	}
	return p
}

// newServices returns the names of the services of a project.
func (f *fleet) newServices(p *project) *migration.Services {
	if f.services[p.name] == nil {
		settings := f.settings
		settings.Project = p.name
		f.services[p.name] = migration.NewServices(settings)
	}
	return f.services[p.name]
}

// destination returns the cluster of a destination as Argo CD calls it, and at the hub. Theirs is empty for the cluster
// where Argo CD runs.
func (f *fleet) destination(d *migration.Fields) (theirs, reference string, isKnown bool) {
	server, name := strings.TrimRight(d.Text("server"), "/"), d.Text("name")
	for _, word := range []string{server, name} {
		if ours := f.settings.Clusters[word]; word != "" && ours != "" {
			return word, ours, true
		}
	}
	theirs = name
	if theirs == "" {
		named, isNamed := f.servers[server]
		if theirs = named; !isNamed {
			return migration.Line(migration.WithoutCredential(server)), "", false
		}
	}
	if theirs == inCluster {
		theirs = ""
	}
	reference, isKnown = f.settings.ClusterOf(theirs)
	return migration.Line(theirs), reference, isKnown
}

// from returns the reference of a project to a cluster: where each AppProject is a project, clusters are in default.
func (f *fleet) from(p *project, cluster string) string {
	if p.name == "" || f.settings.Project != "" || strings.Contains(cluster, "/") {
		return cluster
	}
	return objectname.Default + "/" + cluster
}

// accepted reports whether the hub accepts a document, and notes what it would say otherwise.
func accepted(fields *migration.Fields, d *fleetv1.Document) bool {
	err := migration.Validate(d)
	if err != nil {
		fields.Note("", migration.Refused, "the hub would refuse it: "+err.Error())
	}
	return err == nil
}

// accepts reports whether the hub accepts the document of a service in a project, and the AppProject allows it: Argo CD
// would refuse the Application, too, and a hub refuses all documents for one.
func (f *fleet) accepts(p *project, fields *migration.Fields, d *fleetv1.Document) bool {
	if !accepted(fields, d) {
		return false
	}
	if p.limits == nil {
		return true
	}
	spec := d.GetService().GetSpec()
	if spec == nil {
		spec = d.GetGlobalService().GetSpec().GetTemplate()
	}
	refused := ""
	for _, source := range spec.GetSources() {
		if url := p.repositories.Named(source.GetRepository()).GetRepository().GetSpec().GetUrl(); !p.limits.repositories.allows(url) {
			refused = "the repository " + url
		}
	}
	if cluster := spec.GetCluster(); cluster != "" && !p.limits.clusters.allows(cluster) {
		refused = "the cluster " + cluster
	}
	if namespace := spec.GetNamespace(); namespace != "" && !strings.Contains(namespace, "${{") && !p.limits.namespaces.allows(namespace) {
		refused = "the namespace " + namespace
	}
	if refused != "" {
		fields.Note("project", migration.Refused, "its AppProject does not allow "+refused+", or the import does not know all that it allows")
	}
	return refused == ""
}

// index is an index in a path of values.
var index = regexp.MustCompile(`\[(\d+)\]`)

// affords reports whether the lists that a path of values makes are within what all of them may have together. A list gets
// as many items as its index says.
func (f *fleet) affords(name string) bool {
	for _, match := range index.FindAllStringSubmatch(name, -1) {
		items, err := strconv.Atoi(match[1])
		if err != nil || items > maxItems-f.items {
			return false
		}
		f.items += items
	}
	return true
}
