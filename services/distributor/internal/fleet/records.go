// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/problems"
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

// Records describes objects: each with the status that the parts of the view make together, which
// may be a moment older in one of them. It has no lock of its own, and is safe for concurrent use.
type Records struct {
	catalog     *Catalog
	presence    *Presence
	tallies     *Tallies
	bundleBooks *BundleBooks
	sources     *sourceStates
	plans       *planBook
	reports     *reports
	reading     *reading
	admitted    *admissions
	hubVersion  string
}

// ServicesNamed returns the services of a local name, by cluster.
func ServicesNamed(c *Catalog, local string) []*catalog.Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.servicesLocked(slices.Collect(c.contents.indexed.names.inClusters(local)))
}

// Withheld returns why a service is withheld from its cluster's agent, or nil if the agent can carry
// it out.
func (r *Records) Withheld(service *catalog.Service) *catalog.Problem {
	f := serviceFacts{service: service, agent: r.agentOf(service), spec: service.Spec}
	problem, _ := f.agentProblem()
	return problem
}

// agentOf returns the agent of the service's cluster.
func (r *Records) agentOf(service *catalog.Service) catalog.Agent {
	if cluster, ok := r.catalog.Cluster(service.Spec.Cluster); ok {
		return cluster.Agent
	}
	return catalog.Agent{}
}

func (r *Records) serviceStatus(service *catalog.Service) ServiceStatus {
	f := serviceFacts{
		service: service, agent: r.agentOf(service), entry: r.plans.entry(service), report: r.reports.of(service),
		spec: r.admitted.specFor(service), isSpecHeld: r.admitted.isHeld(service),
		configured: r.admitted.withConfig(service, r.admitted.of(service.UID)),
	}
	f.isUnread = f.report.Report == nil && r.reading.lacks(service)
	f.sources, f.mirrors = r.sources.of(service)
	status := f.status()
	status.Hold = r.hold(service, f.entry)
	return status
}

func recordOfCluster(r *Records, cluster *catalog.Cluster) Record {
	return Record{Object: cluster, Cluster: r.clusterStatus(cluster)}
}

func recordOfRepository(all *Records, repository *catalog.Repository) Record {
	r := Record{Object: repository}
	if mirror, ok := all.sources.mirror(repository.Name); ok {
		r.Mirror = &mirror
	}
	return r
}

func recordOfService(all *Records, service *catalog.Service) Record {
	r := Record{Object: service, Service: all.serviceStatus(service)}
	if hold := r.Service.Hold; hold != nil && hold.IsNewcomer {
		hold.WaitsFor = all.waitsFor(service, hold.Policy)
	}
	return r
}

func recordOfGlobal(r *Records, global *catalog.GlobalService) Record {
	return Record{Object: global, Global: r.globalStatus(global)}
}

func recordOfBinding(r *Records, binding *catalog.AccessBinding) Record {
	return Record{Object: binding, Binding: Accounts{r.catalog}.ofBinding(binding)}
}

func recordOfProject(r *Records, project *catalog.Project) Record {
	return Record{Object: project, Project: r.catalog.ProjectTotals(project.Name), Bundles: r.bundleBooks.BundleUse(project.Name)}
}

func recordOfProvider(r *Records, provider *catalog.IdentityProvider) Record {
	return Record{Object: provider, Provider: Accounts{r.catalog}.providerStatus(provider)}
}

// isHealthy reports whether a service is healthy.
func (r *Records) isHealthy(service *catalog.Service) bool {
	return r.serviceStatus(service).Phase == catalog.PhaseHealthy
}

func (r *Records) clusterStatus(cluster *catalog.Cluster) ClusterStatus {
	s := ClusterStatus{
		Enrolled:    cluster.Agent.Enrolled(),
		Report:      cluster.Agent.Report,
		PlanVersion: cluster.Agent.PlanVersion,
		AgentSkew:   problems.SkewOf(r.hubVersion, cluster.Agent.Report.AgentVersion),
	}
	s.Connected, s.LastSeenAt = r.presence.presenceOf(cluster)
	for _, tally := range r.tallies.TalliesOf(cluster.Name) {
		s.Services += tally.Total
		s.ServicesHealthy += tally.Healthy
	}
	return s
}
