// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// Attribute adds to a report of the cluster's agent what the hub knows at this moment: which plan entries it is about. What
// this replica knows may be old; so that decides nothing but what agents that cannot tell themselves are taken to mean.
func (v *View) Attribute(cluster *catalog.Cluster, report *catalog.AgentReport) {
	p, ok := v.plansOf(cluster.Name) // this replica may not have been asked for it yet
	if !ok {
		return
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	for i := range report.Services {
		v.attribute(&p, &report.Services[i], report.PlanVersion)
	}
}

func (v *View) attribute(p *plans, stored *catalog.StoredReport, planVersion string) {
	service := v.index.Service(stored.Service)
	if service == nil || service.UID != stored.ServiceUID {
		return
	}
	seen, known := p.entry(planVersion, service.Name)
	if known && seen.SpecDigest == stored.Report.ObservedSpecDigest {
		stored.Entry = seen.Digest
	}
	// The configuration belongs to the generation, too; of a plan that is not known any more nothing can be said about it.
	if entry, ok := p.current.Entry(service.Name); ok && entry.SpecDigest == stored.Report.ObservedSpecDigest &&
		(!known || seen.ConfigDigest == entry.ConfigDigest) {
		stored.ObservedGeneration = service.Generation
	}
}

// entry finds a service's entry in the plan of that version.
func (p *plans) entry(version, service string) (plan.Entry, bool) {
	if p.current.Version == version {
		return p.current.Entry(service)
	}
	for _, old := range p.recent {
		if old.Version == version {
			return old.Entry(service)
		}
	}
	return plan.Entry{}, false
}
