// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Record is one object with its status; the fields of its kind are set.
type Record struct {
	Object catalog.Object
	// Service belongs to a *catalog.Service.
	Service ServiceStatus
	// Cluster belongs to a *catalog.Cluster.
	Cluster ClusterStatus
	// Mirror belongs to a *catalog.Repository; nil while nothing is known.
	Mirror *catalog.Mirror
	// Binding belongs to a *catalog.AccessBinding.
	Binding BindingStatus
	// Project belongs to a *catalog.Project.
	Project Totals
	// Bundles belongs to a *catalog.Project, too.
	Bundles BundleUse
	// Provider belongs to a *catalog.IdentityProvider.
	Provider ProviderStatus
	// Global belongs to a *catalog.GlobalService.
	Global GlobalStatus
}

// ServicesNamed returns the services of a local name, by cluster.
func ServicesNamed(v *View, local string) []*catalog.Service {
	c := v.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.servicesLocked(slices.Collect(c.indexed.names.inClusters(local)))
}

// Withheld returns why a service is withheld from its cluster's agent, or nil if the agent can carry
// it out.
func (v *View) Withheld(service *catalog.Service) *catalog.Problem {
	f := serviceFacts{service: service, agent: v.agentOf(service), spec: service.Spec}
	problem, _ := f.agentProblem()
	return problem
}

// agentOf returns the agent of the service's cluster.
func (v *View) agentOf(service *catalog.Service) catalog.Agent {
	if cluster, ok := v.Catalog.Cluster(service.Spec.Cluster); ok {
		return cluster.Agent
	}
	return catalog.Agent{}
}

func (v *View) serviceStatus(service *catalog.Service) ServiceStatus {
	f := serviceFacts{
		service: service, agent: v.agentOf(service), entry: v.plans.entry(service), report: v.reports.of(service),
		spec: v.admitted.specFor(service), isSpecHeld: v.admitted.isHeld(service),
		configured: v.admitted.withConfig(service, v.admitted.of(service.UID)),
	}
	f.isUnread = f.report.Report == nil && v.reading.lacks(service)
	f.sources, f.mirrors = v.sources.of(service)
	status := f.status()
	status.Hold = Rollouts{v}.hold(service, f.entry)
	return status
}

func recordOfCluster(v *View, cluster *catalog.Cluster) Record {
	return Record{Object: cluster, Cluster: v.clusterStatus(cluster)}
}

func recordOfRepository(v *View, repository *catalog.Repository) Record {
	r := Record{Object: repository}
	if mirror, ok := v.sources.mirror(repository.Name); ok {
		r.Mirror = &mirror
	}
	return r
}

func recordOfService(v *View, service *catalog.Service) Record {
	r := Record{Object: service, Service: v.serviceStatus(service)}
	if hold := r.Service.Hold; hold != nil && hold.IsNewcomer {
		hold.WaitsFor = Rollouts{v}.waitsFor(service, hold.Policy)
	}
	return r
}

func recordOfGlobal(v *View, global *catalog.GlobalService) Record {
	return Record{Object: global, Global: v.globalStatus(global)}
}

func recordOfBinding(v *View, binding *catalog.AccessBinding) Record {
	return Record{Object: binding, Binding: bindingStatus(v.Catalog, binding)}
}

func recordOfProject(v *View, project *catalog.Project) Record {
	return Record{Object: project, Project: v.Catalog.ProjectTotals(project.Name), Bundles: v.BundleBooks.BundleUse(project.Name)}
}

func recordOfProvider(v *View, provider *catalog.IdentityProvider) Record {
	return Record{Object: provider, Provider: v.Catalog.providerStatus(provider)}
}

func (v *View) clusterStatus(cluster *catalog.Cluster) ClusterStatus {
	s := ClusterStatus{
		Enrolled:    cluster.Agent.Enrolled(),
		Report:      cluster.Agent.Report,
		PlanVersion: cluster.Agent.PlanVersion,
	}
	s.Connected, s.LastSeenAt = v.Presence.presenceOf(cluster)
	for _, tally := range v.Tallies.TalliesOf(cluster.Name) {
		s.Services += tally.Total
		s.ServicesHealthy += tally.Healthy
	}
	return s
}
