// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// ServiceStatus is what is known of a service.
type ServiceStatus struct {
	Phase   catalog.Phase
	Problem *catalog.Problem
	// Sources are in the order of the spec.
	Sources []catalog.Resolution
	// Report is nil before the agent's first.
	Report *catalog.ServiceReport
	// Synced means that the desired content is applied.
	Synced             bool
	ObservedGeneration int64
}

// ClusterStatus is what is known of a cluster.
type ClusterStatus struct {
	Enrolled        bool
	Connected       bool
	LastSeenAt      time.Time
	Report          catalog.ClusterReport
	PlanVersion     string
	Services        int
	ServicesHealthy int
}

// evidence is everything that a service's status is made of.
type evidence struct {
	service *catalog.Service
	entry   plan.Entry
	sources []catalog.Resolution
	// mirrors are the mirrors of the sources' repositories.
	mirrors []catalog.Mirror
	report  catalog.StoredReport
}

// status weighs the evidence. A source that cannot be resolved comes first, then what the agent says of the desired
// state; what it says of another state only shows that it has not got there yet.
func (e evidence) status() ServiceStatus {
	s := ServiceStatus{
		Phase:              catalog.PhasePending,
		Sources:            e.shown(),
		Report:             e.report.Report,
		Synced:             e.synced(),
		ObservedGeneration: e.observedGeneration(),
	}
	problem, failed := e.sourceProblem()
	switch {
	case failed:
		s.Phase, s.Problem = catalog.PhaseFailed, problem
	case problem != nil:
		s.Problem = problem
	case len(e.entry.Bundles) == 0:
	case e.current(), e.rehearsed():
		s.Phase, s.Problem = e.report.Report.Phase, e.report.Report.Problem
	case e.service.Spec.Paused:
		s.Phase = catalog.PhasePaused
	case e.report.Report != nil:
		s.Phase = catalog.PhaseSyncing
	}
	return s
}

// shown are the sources with what is held back of them. That is no failure: what is delivered instead goes its way.
func (e evidence) shown() []catalog.Resolution {
	shown := slices.Clone(e.sources)
	for i, mirror := range e.mirrors {
		p := mirror.Problem
		if shown[i].Problem == nil && p != nil && p.Reason == catalog.ReasonSignatureRejected && mirror.Holds(e.service.Spec.Sources[i].Ref) {
			shown[i].Problem = p
		}
	}
	return shown
}

// sourceProblem returns the first source's problem, and whether it is one that does not pass by itself.
func (e evidence) sourceProblem() (problem *catalog.Problem, failed bool) {
	for i, source := range e.sources {
		p := source.Problem
		if p == nil {
			continue
		}
		if p.Reason == catalog.ReasonRepositoryNotReady && e.mirrors[i].Problem != nil {
			p = e.mirrors[i].Problem
		}
		if !p.Reason.Passing() {
			return p, true
		}
		if problem == nil {
			problem = p
		}
	}
	return problem, false
}

// synced tells whether the agent applied completely what is desired.
func (e evidence) synced() bool {
	r := e.report.Report
	return r != nil && r.DryRun == nil && r.Phase != catalog.PhasePending && len(e.entry.Bundles) > 0 && r.ObservedSpecDigest == e.entry.SpecDigest &&
		r.AppliedConfigDigest == e.entry.ConfigDigest && slices.Equal(r.AppliedDigests, e.entry.Digests())
}

// current tells whether the report is about the desired state.
func (e evidence) current() bool {
	r := e.report.Report
	if r == nil || r.Phase == catalog.PhaseUnknown {
		return false
	}
	if e.synced() {
		return true
	}
	switch r.Phase {
	case catalog.PhaseHealthy, catalog.PhaseProgressing, catalog.PhaseDegraded:
		// These claim that everything desired is applied, which the digests deny.
		return false
	case catalog.PhaseUnknown, catalog.PhasePending, catalog.PhaseSyncing, catalog.PhaseFailed, catalog.PhasePaused:
	}
	if tried, ok := r.Tried(); ok {
		return tried.SpecDigest == e.entry.SpecDigest && tried.ConfigDigest == e.entry.ConfigDigest &&
			slices.Equal(tried.Digests, e.entry.Digests())
	}
	return e.report.Entry == e.entry.Digest
}

// rehearsed tells that the report is about a dry run of the desired state. What it says beside that is about what is applied, which
// is another.
func (e evidence) rehearsed() bool {
	return e.report.Report != nil && e.report.Report.DryRun != nil && e.report.Entry == e.entry.Digest
}

// observedGeneration is the spec's own where the report is about it, however the report's replica saw that.
func (e evidence) observedGeneration() int64 {
	if r := e.report.Report; r != nil && len(e.entry.Bundles) > 0 && r.ObservedSpecDigest == e.entry.SpecDigest {
		return e.service.Generation
	}
	return e.report.ObservedGeneration
}

// serviceStatus gathers the evidence. The caller holds the lock.
func (v *View) serviceStatus(service *catalog.Service) ServiceStatus {
	e := evidence{
		service: service,
		report:  v.reports[service.UID],
		sources: make([]catalog.Resolution, len(service.Spec.Sources)),
		mirrors: make([]catalog.Mirror, len(service.Spec.Sources)),
	}
	for i, source := range service.Spec.Sources {
		e.sources[i] = v.resolutions[source.Normal()]
		e.mirrors[i] = v.mirrors[source.Repository]
	}
	e.entry = v.entry(service)
	return e.status()
}

// clusterStatus gathers what is known. The caller holds the lock.
func (v *View) clusterStatus(cluster *catalog.Cluster) ClusterStatus {
	names := v.index.Services(cluster.Name)
	s := ClusterStatus{
		Enrolled:    cluster.Agent.Enrolled(),
		Report:      cluster.Agent.Report,
		PlanVersion: cluster.Agent.PlanVersion,
		Services:    len(names),
	}
	s.Connected, s.LastSeenAt = v.heard(cluster)
	for _, name := range names {
		if v.serviceStatus(v.index.Service(name)).Phase == catalog.PhaseHealthy {
			s.ServicesHealthy++
		}
	}
	return s
}
