// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	maxRules          = 64
	maxScopeNames     = 256
	maxClusterGroups  = 16
	maxClusterGroupID = 128
)

var groupID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@+/-]*[A-Za-z0-9])?$`)

// RoleName is the name of a built-in role or of a Role.
type RoleName string

// The built-in roles. Each but RoleNone includes the ones before it.
const (
	RoleNone     RoleName = ""
	RoleViewer   RoleName = "viewer"
	RoleOperator RoleName = "operator"
	RoleEditor   RoleName = "editor"
	RoleAdmin    RoleName = "admin"
)

// AccessBindingSpec binds subjects to rights in a scope. Its scope is everything that Hub,
// Projects, Clusters, Services and Repositories select together. Its JSON is its stored form.
type AccessBindingSpec struct {
	Description string   `json:"description,omitempty"`
	Users       []string `json:"users,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	// Hub selects everything, also what belongs to no cluster.
	Hub bool `json:"hub,omitempty"`
	// Projects selects clusters, repositories and services by their project.
	Projects ProjectScope `json:"projects,omitzero"`
	// Clusters selects clusters with their services.
	Clusters ClusterSelection `json:"clusters"`
	// Services are paths of single services. One without a cluster selects the services of that name
	// in every cluster. They give no access to clusters.
	Services []string `json:"services,omitempty"`
	// Repositories are names of repositories.
	Repositories []string `json:"repositories,omitempty"`
	Role         RoleName `json:"role,omitempty"`
	// Rules narrow the binding to requests that one of them chooses: requests to clusters and, as
	// resources of the API group leat.dev, calls to the hub. Nil narrows nothing.
	Rules []accessrule.Rule `json:"rules,omitempty"`
	// ClusterGroups are names of further groups in the clusters, without their prefix.
	ClusterGroups []string `json:"clusterGroups,omitempty"`
	// ExpiresAt is when it ends; zero: never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// Reaches reports whether the cluster is in the binding's scope, with everything that it runs.
func (s AccessBindingSpec) Reaches(cluster *Metadata) bool {
	return s.Hub || s.Projects.Covers(objectname.Project(cluster.Name)) || s.Clusters.Covers(cluster)
}

// normalize gives a spec its one stored form: lists without order are sorted, and empty ones nil. It
// works on a clone.
func (s *AccessBindingSpec) normalize() {
	s.Users, s.Groups, s.ClusterGroups = asSet(s.Users), asSet(s.Groups), asSet(s.ClusterGroups)
	s.Clusters.Names, s.Services, s.Repositories = asSet(s.Clusters.Names), asSet(s.Services), asSet(s.Repositories)
	s.Projects.Names = asSet(s.Projects.Names)
	if len(s.Rules) == 0 {
		s.Rules = nil
	}
	s.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		s.Rules[i] = accessrule.Rule{
			Verbs: asSet(r.Verbs), APIGroups: asSet(r.APIGroups), Resources: asSet(r.Resources), Namespaces: asSet(r.Namespaces), Paths: asSet(r.Paths),
		}
	}
	s.Clusters.Labels = s.Clusters.Labels.settled()
}

func (s AccessBindingSpec) validateScope() error {
	others := len(s.Services)+len(s.Repositories) > 0 || !s.Projects.IsEmpty()
	switch {
	case s.Hub && (others || !s.Clusters.IsEmpty()):
		return fielderr.New("spec.hub", "means everything already; leave out projects, clusters, services and repositories, or hub")
	case !s.Hub && !others && s.Clusters.IsEmpty():
		return fielderr.New("spec.clusters", "is required: names, labels, or all: true; or name projects, services or repositories, or write hub: true for everything")
	}
	if s.Projects.All && len(s.Projects.Names) > 0 {
		return fielderr.New("spec.projects.all", "means all projects already; leave out names, or all")
	}
	return cmp.Or(
		fielderr.Each("spec.projects.names", "items", s.Projects.Names, maxScopeNames, objectname.ValidateLabel),
		s.Clusters.validate(),
		fielderr.Each("spec.services", "items", s.Services, maxScopeNames, validateNamedService),
		fielderr.Each("spec.repositories", "items", s.Repositories, maxScopeNames, objectname.Validate),
	)
}

func (s AccessBindingSpec) validateRole() error {
	if s.Role == RoleNone && len(s.ClusterGroups) == 0 {
		return fielderr.New("spec.role", "is required: viewer, operator, editor, admin or the name of a role; or name cluster groups")
	}
	if s.Role != RoleNone {
		if err := objectname.ValidateLabel("spec.role", string(s.Role)); err != nil {
			return err
		}
	}
	if len(s.ClusterGroups) > 0 && !s.Hub && s.Projects.IsEmpty() && s.Clusters.IsEmpty() {
		return fielderr.New("spec.cluster_groups", "need clusters: single services and repositories let nobody reach a cluster")
	}
	return fielderr.Each("spec.cluster_groups", "items", s.ClusterGroups, maxClusterGroups, func(field, name string) error {
		if len(name) > maxClusterGroupID || !groupID.MatchString(name) {
			return fielderr.New(field, "%q is no name of a group: letters, digits and ._@+/-, without the prefix leat:group:", name)
		}
		return nil
	})
}

// validateNamedService checks the path of a service, which names one cluster or none.
func validateNamedService(field, path string) error {
	if objectname.IsPath(path) {
		return nil
	}
	return objectname.ValidateService(field, path)
}

// Place is where the scopes of bindings find an object. The zero Place is the hub as a whole.
type Place struct {
	// Project is the project that the object is in. Empty: it is the hub's.
	Project string
	// Cluster is the path of the cluster that the object runs in, which need not exist. Self is the cluster that the
	// object is.
	Cluster string
	Self    *Metadata
	// Service is the path of the service that the object is, and Namespace the service's.
	Service, Namespace string
	// Repository is the path of the repository that the object is.
	Repository string
	// Binding is the spec of the object if it is a binding: it is in the scopes that contain its own.
	Binding *AccessBindingSpec
}
