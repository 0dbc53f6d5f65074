// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Object is the object of a decision, as scopes know it. The zero Object belongs to the hub as a
// whole, such as a user.
type Object struct {
	// Cluster is the cluster itself, or the one that the object belongs to. Nil: none.
	Cluster *catalog.Metadata
	// Project is the project that the object is in, or that it is itself. Empty: it is in none, or in
	// one that only a binding for all projects covers.
	Project string
	// Service is the path of the service that the object is or belongs to.
	Service string
	// Namespace is the service's.
	Namespace string
	// Repository is the name of the repository.
	Repository string
	// binding is the binding itself. It is in a scope that contains its own.
	binding *catalog.AccessBindingSpec
	// directory finds what the binding names.
	directory Directory
}

// ObjectOf returns what a decision about an object of the catalog is about.
func ObjectOf(directory Directory, object catalog.Object) Object {
	at := object.Place()
	o := Object{
		Cluster: at.Self, Project: at.Project, Service: at.Service, Namespace: at.Namespace, Repository: at.Repository,
		binding: at.Binding, directory: directory,
	}
	if at.Service != "" {
		o.Cluster = clusterOf(directory, at.Cluster)
	}
	return o
}

// clusterOf returns a cluster. One that does not exist can still be in a scope by its name.
func clusterOf(directory Directory, name string) *catalog.Metadata {
	if cluster, ok := directory.Cluster(name); ok {
		return &cluster.Metadata
	}
	return &catalog.Metadata{Name: name}
}

// OfProject returns a project as a whole: what anything in it needs.
func OfProject(name string) Object { return Object{Project: name} }

// OfCluster returns a cluster's.
func OfCluster(cluster *catalog.Cluster) Object {
	return Object{Project: objectname.Project(cluster.Name), Cluster: &cluster.Metadata}
}

// OfRepository returns a repository's.
func OfRepository(name string) Object {
	return Object{Project: objectname.Project(name), Repository: name}
}

// OfEveryService returns the services of a cluster together, whatever their projects are.
func OfEveryService(cluster *catalog.Cluster) Object {
	return Object{Cluster: &cluster.Metadata, Service: anyService}
}

// OfServicesIn returns those services of a cluster that belong to a project and have a namespace, as far
// as no binding names them one by one.
func OfServicesIn(cluster *catalog.Cluster, project, namespace string) Object {
	return Object{Cluster: &cluster.Metadata, Project: project, Namespace: namespace, Service: anyService}
}

// isHub reports whether the grant's scope is everything.
func (g Grant) isHub() bool { return g.Binding == nil || g.Binding.Spec.Hub }

// isEverywhere reports whether the grant's scope is everything, and so is its limit's.
func (g Grant) isEverywhere() bool { return g.isHub() && (g.limit == nil || g.limit.isEverywhere()) }

// contains reports whether the object is in the grant's scope, and in its limit's.
func (g Grant) contains(o Object) bool {
	return g.ownContains(o) && (g.limit == nil || g.limit.contains(o))
}

// ownContains reports whether the object is in the grant's scope without a limit.
func (g Grant) ownContains(o Object) bool {
	if g.isHub() {
		return true
	}
	spec := &g.Binding.Spec
	switch {
	case o.binding != nil:
		return !slices.ContainsFunc(partsOf(*o.binding), func(part scopePart) bool { return !part.isIn(o.directory, spec) })
	case o.Cluster == nil && o.Repository == "" && o.Project == "":
		return false // of the hub
	case spec.Projects.Covers(o.Project):
		return true
	case o.Service != "" && namesService(spec.Services, o.Service):
		return true
	case o.Cluster != nil:
		return spec.Clusters.Covers(o.Cluster)
	case o.Repository != "":
		return slices.Contains(spec.Repositories, o.Repository)
	}
	return false
}

// scopePart is one piece of a binding's scope. One field is set.
type scopePart struct {
	isHub       bool
	allProjects bool
	project     string
	allClusters bool
	cluster     string
	labels      *catalog.LabelSelector
	service     string
	repository  string
}

func partsOf(spec catalog.AccessBindingSpec) []scopePart {
	if spec.Hub {
		return []scopePart{{isHub: true}}
	}
	var parts []scopePart
	if spec.Projects.All {
		parts = append(parts, scopePart{allProjects: true})
	}
	for _, name := range spec.Projects.Names {
		parts = append(parts, scopePart{project: name})
	}
	if spec.Clusters.All {
		parts = append(parts, scopePart{allClusters: true})
	}
	for _, name := range spec.Clusters.Names {
		parts = append(parts, scopePart{cluster: name})
	}
	if spec.Clusters.Labels != nil {
		parts = append(parts, scopePart{labels: spec.Clusters.Labels})
	}
	for _, name := range spec.Services {
		parts = append(parts, scopePart{service: name})
	}
	for _, name := range spec.Repositories {
		parts = append(parts, scopePart{repository: name})
	}
	return parts
}

// givesClusters reports whether the part lets people reach clusters.
func (p scopePart) givesClusters() bool {
	return p.isHub || p.allProjects || p.project != "" || p.allClusters || p.cluster != "" || p.labels != nil
}

// String names the part for people.
func (p scopePart) String() string {
	switch {
	case p.isHub:
		return "the hub"
	case p.allProjects:
		return "all projects"
	case p.project != "":
		return "project " + p.project
	case p.allClusters:
		return "all clusters"
	case p.cluster != "":
		return "cluster " + objectname.Display(p.cluster)
	case p.labels != nil:
		return "clusters with these labels"
	case p.service != "":
		return "service " + objectname.Display(p.service)
	}
	return "repository " + objectname.Display(p.repository)
}

// isIn reports whether everything that the part can ever select is in the other scope. Where only the
// labels that clusters have now could tell, a name is enough, and a selector is not. A cluster runs
// services of other projects, too, so it is in a scope of all projects and not in the scope of its
// own.
func (p scopePart) isIn(directory Directory, scope *catalog.AccessBindingSpec) bool {
	clusters, projects := scope.Clusters, scope.Projects
	switch {
	case scope.Hub:
		return true
	case p.isHub:
		return false
	case projects.All:
		return true
	case p.allProjects:
		return false
	case p.project != "":
		return projects.Covers(p.project)
	case p.allClusters:
		return clusters.All
	case p.cluster != "":
		return clusters.All || slices.Contains(clusters.Names, p.cluster) || coversNow(directory, clusters, p.cluster)
	case p.labels != nil:
		return clusters.All || clusters.Labels != nil && implies(p.labels, clusters.Labels)
	case p.service != "":
		_, cluster := objectname.SplitService(p.service)
		return namesService(scope.Services, p.service) || projects.Covers(objectname.Project(p.service)) || clusters.All ||
			cluster != "" && (slices.Contains(clusters.Names, cluster) || coversNow(directory, clusters, cluster))
	}
	return slices.Contains(scope.Repositories, p.repository) || projects.Covers(objectname.Project(p.repository))
}

// namesService reports whether one of the paths selects the service: by its own path, or by its name in
// every cluster.
func namesService(paths []string, service string) bool {
	return slices.Contains(paths, service) || slices.Contains(paths, objectname.LocalPath(service))
}

func coversNow(directory Directory, clusters catalog.ClusterSelection, name string) bool {
	cluster, ok := directory.Cluster(name)
	return ok && clusters.Covers(&cluster.Metadata)
}

// implies reports whether every object that the first selector matches is matched by the second one,
// because the first asks for all that the second asks for.
func implies(first, second *catalog.LabelSelector) bool {
	if len(second.MatchLabels)+len(second.MatchExpressions) == 0 {
		return false // matches nothing
	}
	for key, value := range maps.All(second.MatchLabels) {
		if got, ok := first.MatchLabels[key]; !ok || got != value {
			return false
		}
	}
	return !slices.ContainsFunc(second.MatchExpressions, func(want catalog.LabelRequirement) bool {
		return !slices.ContainsFunc(first.MatchExpressions, func(got catalog.LabelRequirement) bool {
			return got.Key == want.Key && got.Operator == want.Operator && slices.Equal(got.Values, want.Values)
		})
	})
}
