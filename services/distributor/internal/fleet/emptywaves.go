// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// mostLooks bounds how often a service is compared with a policy for the warnings of one apply. A million takes some
// tenths of a second.
const mostLooks = 1_000_000

// EmptyWaves returns a warning for each wave of a policy whose clusters and labels select no service under
// the policy: a rollout would wait at it. While no service is known to be under the policy, a wave may select
// any cluster that the policy's project may use. applied are the objects that are applied with the
// policy, which the view does not have if that is a dry run. In a fleet that is too large to check
// every service there are no warnings, and the first rollout reports it.
func (policies Policies) EmptyWaves(policy *catalog.RolloutPolicy, applied []catalog.Object) []string {
	waves := slices.DeleteFunc(slices.Clone(policy.Spec.Strategy.Waves), func(w rollout.Wave) bool { return !w.Selects() })
	if len(waves) == 0 {
		return nil
	}
	s := policies.newWaveSight(policy, applied)
	if s.looks() > mostLooks {
		return nil
	}
	isCovering, mayDerive := false, false
	for service := range s.services {
		cluster := s.cluster(service.Spec.Cluster)
		if cluster == nil || s.policyOf(service, cluster) != policy.Name {
			continue
		}
		isCovering = true
		member := rollout.Member{Cluster: cluster.Name, Labels: service.Labels, ClusterLabels: cluster.Labels}
		if waves = without(waves, member); len(waves) == 0 {
			return nil
		}
	}
	for _, object := range applied {
		_, isGlobal := object.(*catalog.GlobalService)
		mayDerive = mayDerive || isGlobal && objectname.Project(object.Key().Name) == objectname.Project(policy.Name)
	}
	subject, missing := "no service under the policy", "service"
	if !isCovering || mayDerive {
		// Labels of services that do not exist are not known.
		for cluster := range s.clusters {
			waves = without(waves, rollout.Member{Cluster: cluster.Name, ClusterLabels: cluster.Labels})
		}
		subject, missing = "no cluster that the policy's project may use", "cluster"
	}
	var warnings []string
	for _, w := range waves {
		warnings = append(warnings, fmt.Sprintf("wave %q selects %s, and rollouts wait at such a wave; correct its clusters or labels, or make a %s that it selects",
			w.Name, subject, missing))
	}
	return warnings
}

// without returns the waves that a member does not fit.
func without(waves []rollout.Wave, member rollout.Member) []rollout.Wave {
	return slices.DeleteFunc(waves, func(w rollout.Wave) bool { return w.Fits(member) })
}

// waveSight is the view when a policy has been applied with other objects.
type waveSight struct {
	catalog  *Catalog
	policies []*catalog.RolloutPolicy
	own      *catalog.Project
	applied  map[catalog.Key]catalog.Object
}

func (policies Policies) newWaveSight(policy *catalog.RolloutPolicy, applied []catalog.Object) *waveSight {
	s := &waveSight{catalog: policies.Catalog, applied: map[catalog.Key]catalog.Object{}}
	for _, object := range applied {
		s.applied[object.Key()] = object
	}
	s.own = s.project(objectname.Project(policy.Name))
	s.policies = slices.DeleteFunc(policies.inOrder(), func(p *catalog.RolloutPolicy) bool { return p.Name == policy.Name })
	s.policies = append(s.policies, policy)
	slices.SortStableFunc(s.policies, catalog.ComparePolicies)
	return s
}

// looks returns how often a service is compared with a policy for all policies that are applied together.
func (s *waveSight) looks() int {
	together := 0
	for key := range s.applied {
		if key.Kind == catalog.KindRolloutPolicy {
			together++
		}
	}
	return (s.catalog.Totals().Services + len(s.applied)) * len(s.policies) * together
}

// object returns the object of a key, or nil.
func (s *waveSight) object(key catalog.Key) catalog.Object {
	if object, ok := s.applied[key]; ok {
		return object
	}
	return s.catalog.find(key)
}

// cluster returns a cluster by its path, or nil.
func (s *waveSight) cluster(name string) *catalog.Cluster {
	cluster, _ := s.object(catalog.Key{Kind: catalog.KindCluster, Name: name}).(*catalog.Cluster)
	return cluster
}

// project returns a project by its name, or nil.
func (s *waveSight) project(name string) *catalog.Project {
	project, _ := s.object(catalog.Key{Kind: catalog.KindProject, Name: name}).(*catalog.Project)
	return project
}

// policyOf returns the name of the policy that decides about a service; empty: none does.
func (s *waveSight) policyOf(service *catalog.Service, cluster *catalog.Cluster) string {
	i := slices.IndexFunc(s.policies, func(p *catalog.RolloutPolicy) bool { return p.Covers(service, cluster.Labels) })
	if i < 0 {
		return ""
	}
	return s.policies[i].Name
}

// services yields each service as it is now. It is an iter.Seq.
func (s *waveSight) services(yield func(*catalog.Service) bool) {
	for _, object := range s.applied {
		if service, ok := object.(*catalog.Service); ok && !yield(service) {
			return
		}
	}
	for _, name := range namesOf(s.catalog, catalog.KindService) {
		if _, isApplied := s.applied[catalog.Key{Kind: catalog.KindService, Name: name}]; isApplied {
			continue
		}
		if service, ok := s.catalog.Service(name); ok && !yield(service) {
			return
		}
	}
}

// clusters yields each cluster that the policy's project may use, as it is now. It is an iter.Seq.
func (s *waveSight) clusters(yield func(*catalog.Cluster) bool) {
	names := namesOf(s.catalog, catalog.KindCluster)
	for key := range s.applied {
		if _, isKnown := s.catalog.Object(key); key.Kind == catalog.KindCluster && !isKnown {
			names = append(names, key.Name)
		}
	}
	for _, name := range names {
		cluster := s.cluster(name)
		if cluster == nil || s.own == nil || !s.own.MayUseCluster(s.project(objectname.Project(name)), cluster) {
			continue
		}
		if !yield(cluster) {
			return
		}
	}
}
