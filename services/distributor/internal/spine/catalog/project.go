// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"reflect"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// Project is a part of the fleet with names of its own. Clusters, repositories and services belong
// to one, which their names show: see package objectname.
type Project struct {
	Metadata
	Spec ProjectSpec
}

// ProjectSpec is the desired state of a project. Its JSON is its stored form.
type ProjectSpec struct {
	// Description is a sentence for people.
	Description string `json:"description,omitempty"`
	// Shares lists the objects that services of other projects may use. They add up.
	Shares []ProjectShare `json:"shares,omitempty"`
	// Limits bound the project's own services.
	Limits ProjectLimits `json:"limits,omitzero"`
	// Quotas bound the number of its objects, and the bytes of its bundles.
	Quotas ProjectQuotas `json:"quotas,omitzero"`
	// ConfigSets are paths of sets that all services of the project use, lowest first.
	ConfigSets []string `json:"configSets,omitempty"`
}

// ProjectShare lets services of other projects use repositories, clusters and sets of this one.
type ProjectShare struct {
	Projects     Selection `json:"projects"`
	Repositories Selection `json:"repositories,omitzero"`
	Clusters     Selection `json:"clusters,omitzero"`
	ConfigSets   Selection `json:"configSets,omitzero"`
	// ClusterAnnotations are patterns of keys of annotations that the others know of these clusters.
	// Nil: they know none.
	ClusterAnnotations syncpolicy.AllowList `json:"clusterAnnotations,omitzero"`
}

// ProjectLimits bound a project's own services. A nil list allows everything.
type ProjectLimits struct {
	// Limits are the limits that the clusters' agents check, too.
	syncpolicy.Limits

	// Repositories are patterns of URLs.
	Repositories syncpolicy.AllowList `json:"repositories,omitzero"`
	// Clusters are patterns of references, as people write them in the project.
	Clusters syncpolicy.AllowList `json:"clusters,omitzero"`
}

// IsZero reports whether everything is allowed. It covers more than the embedded Limits.
func (l ProjectLimits) IsZero() bool {
	return l.Limits.IsZero() && l.Repositories == nil && l.Clusters == nil
}

// defaultUID is the uid of the project default. It is the same in every hub.
const defaultUID = "default"

// DefaultProject returns the project default as it is until a person edits it: without limits, and
// sharing nothing.
func DefaultProject() *Project {
	return &Project{Metadata: Metadata{Name: objectname.Default, UID: defaultUID, Generation: 1}}
}

// Key implements Object.
func (p *Project) Key() Key { return Key{KindProject, p.Name} }

func (p *Project) sameSpec(other Object) bool {
	o, ok := other.(*Project)
	return ok && reflect.DeepEqual(p.Spec, o.Spec)
}

func (p *Project) clone() Object { return new(*p) }

func (p *Project) normalize()                                    { p.Spec.normalize() }
func (p *Project) settle(Object) error                           { return nil }
func (p *Project) reachable() error                              { return nil }
func (p *Project) checkReferences(context.Context, Reader) error { return nil }

func (p *Project) checkSettled(ctx context.Context, tx Reader) error {
	return checkSetList(ctx, tx, p, setListField, p.Spec.ConfigSets)
}

func (p *Project) room(ProjectQuotas) Room { return Room{} }
func (p *Project) secrets() map[string]any { return nil }

func (p *Project) changesRelease(stored Object) bool {
	have, ok := stored.(*Project)
	return ok && !slices.Equal(have.Spec.ConfigSets, p.Spec.ConfigSets)
}

// Place implements Object. To edit a project is not a right within it.
func (p *Project) Place() Place { return Place{} }

// AgentLimits returns the limits that agents check, or nil if there are none. It is shared and must not
// be changed.
func (p *Project) AgentLimits() *syncpolicy.Limits {
	if p == nil || p.Spec.Limits.Limits.IsZero() {
		return nil
	}
	return &p.Spec.Limits.Limits
}

// shares reports whether services of another project may use an object of this one.
func (p *Project) shares(with *Project, kind Kind, name string, labels map[string]string) bool {
	return slices.ContainsFunc(p.Spec.Shares, func(share ProjectShare) bool {
		what := share.Repositories
		switch kind { //nolint:exhaustive // the others are not shared
		case KindCluster:
			what = share.Clusters
		case KindConfigSet:
			what = share.ConfigSets
		}
		return share.Projects.covers(with.Name, with.Labels) && what.covers(name, labels)
	})
}

// normalize gives a spec its one stored form: lists without order are sorted, and empty ones nil. It works
// on a clone.
func (s *ProjectSpec) normalize() {
	s.Shares = slices.Clone(s.Shares)
	if len(s.Shares) == 0 {
		s.Shares = nil
	}
	for i := range s.Shares {
		share := &s.Shares[i]
		share.Projects, share.Repositories, share.Clusters = share.Projects.settled(), share.Repositories.settled(), share.Clusters.settled()
		share.ConfigSets, share.ClusterAnnotations = share.ConfigSets.settled(), asSet(share.ClusterAnnotations)
	}
	if len(s.ConfigSets) == 0 {
		s.ConfigSets = nil
	}
}

// ProjectOf returns the project that an object belongs to, or is.
func ProjectOf(object Object) string {
	if key := object.Key(); key.Kind == KindProject {
		return key.Name
	}
	return objectname.Project(object.Meta().Name)
}

// SharesSet reports whether services of a project may use a set of this one.
func (p *Project) SharesSet(with *Project, set *ConfigSet) bool {
	project, name := objectname.Split(set.Name)
	return project == with.Name || p.shares(with, KindConfigSet, name, set.Labels)
}

// MayUseCluster reports whether services of a project may be in a cluster: the cluster is the project's own,
// or one that its project, the owner, shares with it, and the limits of the project allow it.
func (p *Project) MayUseCluster(owner *Project, cluster *Cluster) bool {
	project, name := objectname.Split(cluster.Name)
	if project != p.Name && (owner == nil || !owner.shares(p, KindCluster, name, cluster.Labels)) {
		return false
	}
	return p.Spec.Limits.Clusters.Allows(objectname.Format(cluster.Name, p.Name))
}
