// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"reflect"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// AgentReport is a report as an agent sends it.
type AgentReport struct {
	PlanVersion string
	Services    []NamedReport
	// Full means that Services are all that the agent knows.
	Full bool
	// Cluster is nil when unchanged.
	Cluster  *catalog.ClusterReport
	Instance string
	Sequence uint64
}

// NamedReport is the report of one service. The uid keeps a new service from inheriting the status of an old one.
type NamedReport struct {
	Service    string
	ServiceUID string
	Report     catalog.ServiceReport
}

// Report takes an agent's report and stores what it changes; when it returns nil, that is durable. Reports of services
// that are not the cluster's are left out. WantFull means that nothing was taken, because the hub does not know what
// the agent's process reported before. The error is the store's.
func (v *View) Report(ctx context.Context, cluster *catalog.Cluster, report AgentReport) (wantFull bool, err error) {
	known := cluster.Agent
	if report.Instance == known.Instance && report.Sequence != 0 && report.Sequence <= known.Sequence {
		return false, nil
	}
	if report.Instance != known.Instance && !report.Full {
		return true, nil
	}
	// A report is weighed against the plan, which this replica may not have been asked for yet.
	v.Plan(cluster.Name)
	changed := v.difference(cluster, report)
	if len(changed.Services) == 0 && changed.Cluster == nil && changed.PlanVersion == known.PlanVersion && changed.Instance == known.Instance {
		return false, nil
	}
	taken, err := v.p.Store.SaveReport(ctx, changed)
	if err != nil || !taken {
		return false, err
	}
	// What is durable is seen at once; should the store have gone since, the monitor catches up.
	_ = v.Refresh(ctx)
	return false, nil
}

// difference leaves out of a report what is known already.
func (v *View) difference(cluster *catalog.Cluster, report AgentReport) catalog.AgentReport {
	v.mu.RLock()
	defer v.mu.RUnlock()
	changed := catalog.AgentReport{
		ClusterUID:  cluster.UID,
		Instance:    report.Instance,
		Sequence:    report.Sequence,
		PlanVersion: report.PlanVersion,
		Services:    v.changedReports(cluster, report),
	}
	if report.Cluster != nil && *report.Cluster != cluster.Agent.Report {
		changed.Cluster = report.Cluster
	}
	return changed
}

func (v *View) changedReports(cluster *catalog.Cluster, report AgentReport) []catalog.StoredReport {
	var changed []catalog.StoredReport
	reported := make(map[string]bool, len(report.Services))
	for _, named := range report.Services {
		service := v.index.Service(named.Service)
		if service == nil || service.UID != named.ServiceUID || service.Spec.Cluster != cluster.Name {
			continue
		}
		reported[service.UID] = true
		next := v.stored(service, report.PlanVersion, named.Report)
		if !reflect.DeepEqual(v.reports[service.UID], next) {
			changed = append(changed, next)
		}
	}
	if report.Full {
		changed = append(changed, v.unreported(cluster, reported)...)
	}
	return changed
}

// unreported returns an empty report for each service that the agent no longer knows.
func (v *View) unreported(cluster *catalog.Cluster, reported map[string]bool) []catalog.StoredReport {
	var gone []catalog.StoredReport
	for _, name := range v.index.Services(cluster.Name) {
		service := v.index.Service(name)
		if !reported[service.UID] && v.reports[service.UID].Report != nil {
			gone = append(gone, catalog.StoredReport{Service: name, ServiceUID: service.UID})
		}
	}
	return gone
}

// stored adds to a report what the hub knows at this moment: which plan entry it is about.
func (v *View) stored(service *catalog.Service, planVersion string, report catalog.ServiceReport) catalog.StoredReport {
	last := v.reports[service.UID]
	next := catalog.StoredReport{Service: service.Name, ServiceUID: service.UID, Report: &report, ObservedGeneration: last.ObservedGeneration}
	p := v.plans[service.Spec.Cluster]
	if p == nil {
		return next
	}
	if entry, ok := p.entry(planVersion, service.Name); ok && entry.SpecDigest == report.ObservedSpecDigest {
		next.Entry = entry.Digest
	}
	if entry, ok := p.current.Entry(service.Name); ok && entry.SpecDigest == report.ObservedSpecDigest {
		next.ObservedGeneration = service.Generation
	}
	return next
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
