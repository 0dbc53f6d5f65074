// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package authz

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// MayChangeProject returns an *EscalationError if a change of a project would give the people of any
// project what the caller does not hold: by a share, by labels, or by looser limits. current is nil for
// a new project, and next is nil for one that is removed.
//
// A new project gives no role, so its limits may be any. A project that is removed can be made
// again, so its limits count as loosened.
func (r *Rights) MayChangeProject(current, next *catalog.Project) error {
	from, to := &catalog.Project{}, &catalog.Project{}
	if current != nil {
		from = current
	}
	if next != nil {
		to = next
	}
	if current != nil {
		if err := r.mayLoosen(from.Spec, to.Spec); err != nil {
			return err
		}
	}
	if next == nil {
		return nil
	}
	if !maps.Equal(from.Labels, to.Labels) && !r.isAdminOf(catalog.AccessBindingSpec{Projects: catalog.ProjectScope{All: true}}) {
		return &EscalationError{Missing: "the role admin for all projects, which labels of a project need: others share with projects by labels"}
	}
	return r.mayShare(to.Name, from.Spec.Shares, to.Spec.Shares)
}

// isAdminOf reports whether the person could give the role admin in that scope for as long as they
// like.
func (r *Rights) isAdminOf(scope catalog.AccessBindingSpec) bool {
	admin, _ := catalog.BuiltinRole(catalog.RoleAdmin)
	return r.MayGive(scope, admin) == nil
}

// mayLoosen decides about limits and quotas. Limits restrain services, whose agents may do
// everything in their clusters.
func (r *Rights) mayLoosen(from, to catalog.ProjectSpec) error {
	for _, limit := range []struct {
		name     string
		from, to syncpolicy.AllowList
	}{
		{"clusters", from.Limits.Clusters, to.Limits.Clusters},
		{"namespaces", from.Limits.Namespaces, to.Limits.Namespaces},
		{"clusterScopedKinds", from.Limits.ClusterScopedKinds, to.Limits.ClusterScopedKinds},
		{"serviceAccounts", from.Limits.ServiceAccounts, to.Limits.ServiceAccounts},
	} {
		if !isTighter(limit.to, limit.from) && !r.isAdminOf(catalog.AccessBindingSpec{Clusters: catalog.ClusterSelection{All: true}}) {
			return &EscalationError{Missing: "the role admin for all clusters, which a looser spec.limits." + limit.name + " needs"}
		}
	}
	if !isTighter(to.Limits.Repositories, from.Limits.Repositories) && !r.isAdminOf(catalog.AccessBindingSpec{Projects: catalog.ProjectScope{All: true}}) {
		return &EscalationError{Missing: "the role admin for all projects, which a looser spec.limits.repositories needs"}
	}
	for _, quota := range []struct {
		name, counts string
		isRaised     bool
	}{
		{"services", catalog.ResourceServices, isRaised(from.Quotas.Services, to.Quotas.Services)},
		{"repositories", catalog.ResourceRepositories, isRaised(from.Quotas.Repositories, to.Quotas.Repositories)},
		{"bundleBytes", catalog.ResourceRepositories, isRaised(from.Quotas.BundleBytes, to.Quotas.BundleBytes)},
		{"bytesPerBundle", catalog.ResourceRepositories, isRaised(from.Quotas.BytesPerBundle, to.Quotas.BytesPerBundle)},
	} {
		create := catalog.Permission{Verb: catalog.VerbCreate, Resource: quota.counts}
		if quota.isRaised && !r.holdsFor(catalog.AccessBindingSpec{Projects: catalog.ProjectScope{All: true}}, create) {
			return &EscalationError{Missing: fmt.Sprintf("the permission %q for all projects, which a higher spec.quotas.%s needs", create, quota.name)}
		}
	}
	return nil
}

// isRaised reports whether the second quota allows more than the first one. Nil: there is no bound.
func isRaised[T int32 | int64](from, to *T) bool {
	return from != nil && (to == nil || *to > *from)
}

// isTighter reports whether the first list allows nothing that the second one does not allow, as far as
// single patterns show it.
func isTighter(list, than syncpolicy.AllowList) bool {
	if than == nil {
		return true
	}
	return list != nil && !slices.ContainsFunc(list, func(pattern string) bool {
		isText := !strings.Contains(pattern, "*")
		return !slices.Contains(than, pattern) && !slices.Contains(than, "**") && (!isText || !than.Allows(pattern))
	})
}

// isListed reports whether the second list of a share has everything that the first one has. A share
// without a list has nothing.
func isListed(list, in syncpolicy.AllowList) bool {
	return isTighter(append(syncpolicy.AllowList{}, list...), append(syncpolicy.AllowList{}, in...))
}

// holdsFor reports whether the person could give the permission in that scope for as long as they like.
func (r *Rights) holdsFor(scope catalog.AccessBindingSpec, p catalog.Permission) bool {
	return r.MayGive(scope, catalog.RoleSpec{Permissions: []catalog.Permissible{{Verbs: []string{p.Verb}, Resources: []string{p.Resource}}}}) == nil
}

// mayShare decides about what a project shares. Each piece of a share that is not shared with the same
// projects already must be the person's to give: the use of a repository, and everything in a cluster,
// because services of other projects have the agent's rights there, and read the annotations that it lists.
func (r *Rights) mayShare(project string, from, to []catalog.ProjectShare) error {
	for _, share := range to {
		known := slices.DeleteFunc(slices.Clone(from), func(s catalog.ProjectShare) bool { return !includes(s.Projects, share.Projects) })
		for _, piece := range piecesOf(share.Clusters) {
			isKnown := slices.ContainsFunc(known, func(s catalog.ProjectShare) bool {
				return includes(s.Clusters, piece) && isListed(share.ClusterAnnotations, s.ClusterAnnotations)
			})
			if !isKnown && !r.mayShareClusters(project, piece) {
				return lacksShare("the role admin", piece, "cluster", "clusters", project)
			}
		}
		for _, piece := range piecesOf(share.ConfigSets) {
			isKnown := slices.ContainsFunc(known, func(s catalog.ProjectShare) bool { return includes(s.ConfigSets, piece) })
			if !isKnown && !r.mayUseSetsOf(project) {
				return lacksShare("the permission \"use configsets\"", piece, "set", "sets", project)
			}
		}
		for _, piece := range piecesOf(share.Repositories) {
			isKnown := slices.ContainsFunc(known, func(s catalog.ProjectShare) bool { return includes(s.Repositories, piece) })
			if !isKnown && !r.mayShareRepositories(project, piece) {
				return lacksShare("the permission \"use repositories\"", piece, "repository", "repositories", project)
			}
		}
	}
	return nil
}

// piecesOf returns the selections of one kind each that make up a selection: all, one name, or labels.
func piecesOf(s catalog.Selection) []catalog.Selection {
	if s.All {
		return []catalog.Selection{{All: true}}
	}
	var pieces []catalog.Selection
	for _, name := range s.Names {
		pieces = append(pieces, catalog.Selection{Names: []string{name}})
	}
	if s.Labels != nil {
		pieces = append(pieces, catalog.Selection{Labels: s.Labels})
	}
	return pieces
}

// includes reports whether a selection selects all that another one selects, as far as names and equal
// selectors show it: labels of objects can change.
func includes(selection, other catalog.Selection) bool {
	if selection.All || other.All {
		return selection.All
	}
	hasLabels := other.Labels == nil || reflect.DeepEqual(selection.Labels, other.Labels)
	return hasLabels && !slices.ContainsFunc(other.Names, func(name string) bool { return !slices.Contains(selection.Names, name) })
}

// mayShareClusters reports whether the person is an administrator of all that a piece selects among the
// clusters of a project, or of the project itself.
func (r *Rights) mayShareClusters(project string, piece catalog.Selection) bool {
	if r.isAdminOf(catalog.AccessBindingSpec{Projects: catalog.ProjectScope{Names: []string{project}}}) {
		return true
	}
	clusters := catalog.ClusterSelection{All: piece.All, Labels: piece.Labels}
	for _, name := range piece.Names {
		clusters.Names = append(clusters.Names, objectname.Join(project, name))
	}
	return r.isAdminOf(catalog.AccessBindingSpec{Clusters: clusters})
}

// mayShareRepositories reports whether the person may use all that a piece selects among the
// repositories of a project.
func (r *Rights) mayShareRepositories(project string, piece catalog.Selection) bool {
	scope := catalog.AccessBindingSpec{Projects: catalog.ProjectScope{Names: []string{project}}}
	if len(piece.Names) > 0 {
		scope = catalog.AccessBindingSpec{Repositories: []string{objectname.Join(project, piece.Names[0])}}
	}
	return r.holdsFor(scope, catalog.Permission{Verb: catalog.VerbUse, Resource: catalog.ResourceRepositories})
}

// mayUseSetsOf reports whether the person may use the sets of a project.
func (r *Rights) mayUseSetsOf(project string) bool {
	scope := catalog.AccessBindingSpec{Projects: catalog.ProjectScope{Names: []string{project}}}
	return r.holdsFor(scope, catalog.Permission{Verb: catalog.VerbUse, Resource: catalog.ResourceConfigSets})
}

func lacksShare(right string, piece catalog.Selection, one, several, project string) error {
	what := "the " + several + " of project " + project
	if len(piece.Names) > 0 {
		what = one + " " + objectname.Display(objectname.Join(project, piece.Names[0]))
	}
	return &EscalationError{Missing: right + " for " + what + ", which sharing it needs"}
}
