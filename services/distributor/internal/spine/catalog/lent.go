// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// AnnotationsFor returns the keys of the cluster's annotations that services of a project may know.
// Nil: all of them, because the cluster is the project's own, or because the shares of the cluster's
// project, the owner, list every one. Either project may be nil, and then nothing is listed.
//
// Every way in which a service learns annotations of its cluster follows this function: parameters
// and conditions of global services, references, and facts of templates.
func (c *Cluster) AnnotationsFor(own, owner *Project) syncpolicy.AllowList {
	project, name := objectname.Split(c.Name)
	if own != nil && own.Name == project {
		return nil
	}
	known := syncpolicy.AllowList{}
	for _, key := range slices.Sorted(maps.Keys(c.Annotations)) {
		if own != nil && owner != nil && owner.sharesAnnotation(own, name, c.Labels, key) {
			known = append(known, key)
		}
	}
	if len(known) == len(c.Annotations) {
		return nil
	}
	return known
}

// IsSeenAlike reports whether services of a project know the same of the cluster's annotations, and conditions
// on these can be decided alike, before a change of the two projects and after it. Each of them may be nil.
func (c *Cluster) IsSeenAlike(ownBefore, ownerBefore, own, owner *Project) bool {
	before, after := c.AnnotationsFor(ownBefore, ownerBefore), c.AnnotationsFor(own, owner)
	// An empty list shows no annotation, and a nil one shows all.
	return (before == nil) == (after == nil) && slices.Equal(before, after) && c.IsLentBare(ownBefore, ownerBefore) == c.IsLentBare(own, owner)
}

// SeenBy returns the cluster as services of a project know it: without the annotations that
// AnnotationsFor does not list. It is the same cluster if there are none.
func (c *Cluster) SeenBy(own, owner *Project) *Cluster {
	known := c.AnnotationsFor(own, owner)
	if known == nil {
		return c
	}
	seen := *c
	seen.Annotations = nil
	for _, key := range known {
		if seen.Annotations == nil {
			seen.Annotations = make(map[string]string, len(known))
		}
		seen.Annotations[key] = c.Annotations[key]
	}
	return &seen
}

// IsLentBare reports whether a cluster with annotations is another project's and no share that lends it
// lists any. Shares of earlier versions are such. A condition on annotations cannot be decided then:
// to take it for false would remove the service.
func (c *Cluster) IsLentBare(own, owner *Project) bool {
	project, name := objectname.Split(c.Name)
	if own != nil && own.Name == project || len(c.Annotations) == 0 {
		return false
	}
	return own == nil || !slices.ContainsFunc(owner.AnnotationShares(), func(share ProjectShare) bool {
		return share.Projects.covers(own.Name, own.Labels) && share.Clusters.covers(name, c.Labels)
	})
}

// sharesAnnotation reports whether a share of the project lends a cluster to another project together
// with the annotation of that key.
func (p *Project) sharesAnnotation(with *Project, cluster string, labels map[string]string, key string) bool {
	return slices.ContainsFunc(p.Spec.Shares, func(share ProjectShare) bool {
		return len(share.ClusterAnnotations) > 0 && share.ClusterAnnotations.Allows(key) &&
			share.Projects.covers(with.Name, with.Labels) && share.Clusters.covers(cluster, labels)
	})
}

// AnnotationShares returns what decides which annotations of its clusters other projects know.
func (p *Project) AnnotationShares() []ProjectShare {
	if p == nil {
		return nil
	}
	var shares []ProjectShare
	for _, share := range p.Spec.Shares {
		if len(share.ClusterAnnotations) > 0 {
			shares = append(shares, ProjectShare{Projects: share.Projects, Clusters: share.Clusters, ClusterAnnotations: share.ClusterAnnotations})
		}
	}
	return shares
}

// FactsOf returns the facts of the service with that path, of the project own, in a cluster of the
// project owner.
func FactsOf(service string, cluster *Cluster, own, owner *Project) ConfigFacts {
	return FactsOfSeen(service, cluster.SeenBy(own, owner))
}

// FactsOfSeen is FactsOf for a cluster as the service's project knows it: see [Cluster.SeenBy].
func FactsOfSeen(service string, cluster *Cluster) ConfigFacts {
	project, name := objectname.Split(objectname.LocalPath(service))
	facts := ConfigFacts{Project: project, Service: name}
	facts.ClusterProject, facts.Cluster = objectname.Split(cluster.Name)
	facts.Labels, facts.Annotations = cluster.Labels, cluster.Annotations
	return facts
}
