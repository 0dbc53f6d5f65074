// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Scope bounds the services for which a person can have a permission, so that a listing need not
// read the others. It does not decide about a service that it contains.
type Scope struct {
	// Everything is true if the scope is not bounded; the other fields are empty then.
	Everything bool
	// Projects are those whose services it contains, sorted.
	Projects []string
	// Clusters are those whose services it contains. None of them is all clusters.
	Clusters []catalog.ClusterSelection
	// Services are paths of further services, sorted. One without a cluster stands for the services of
	// that name in every cluster.
	Services []string
}

// ScopeOf returns a scope that contains every service for which the person has the permission.
func (r *Rights) ScopeOf(p catalog.Permission) Scope {
	scope := scopeOf(r.grants, p)
	if scope.Everything && r.limit != nil {
		return scopeOf([]Grant{*r.limit}, p)
	}
	return scope
}

// scopeOf returns a scope that contains every service for which the grants give the permission.
func scopeOf(grants []Grant, p catalog.Permission) Scope {
	projects, services := map[string]struct{}{}, map[string]struct{}{}
	var scope Scope
	for _, g := range grants {
		if !g.holds(p) {
			continue
		}
		if g.isHub() || g.Binding.Spec.Projects.All || g.Binding.Spec.Clusters.All {
			return Scope{Everything: true}
		}
		for _, name := range g.Binding.Spec.Projects.Names {
			projects[name] = struct{}{}
		}
		for _, name := range g.Binding.Spec.Services {
			services[name] = struct{}{}
		}
		if clusters := g.Binding.Spec.Clusters; len(clusters.Names) > 0 || clusters.Labels != nil {
			scope.Clusters = append(scope.Clusters, clusters)
		}
	}
	scope.Projects, scope.Services = slices.Sorted(maps.Keys(projects)), slices.Sorted(maps.Keys(services))
	return scope
}
