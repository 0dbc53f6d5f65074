// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// maxReportObjects bounds the objects of each list of a report; the rest is cut.
const maxReportObjects = 50

// ReportMessage returns the message of a service's report.
func ReportMessage(s *catalog.Service, r *catalog.ServiceReport) *distributorv1.ServiceReport {
	m := &distributorv1.ServiceReport{
		Service:             s.Name,
		ServiceUid:          s.UID,
		Phase:               typev1.ServicePhase(typev1.ServicePhase_value["SERVICE_PHASE_"+string(r.Phase)]),
		Problem:             ProblemMessage(r.Problem),
		ObservedSpecDigest:  r.ObservedSpecDigest,
		AppliedDigests:      r.AppliedDigests,
		AppliedCommits:      r.AppliedCommits,
		AppliedConfigDigest: r.AppliedConfigDigest,
		Counts: &typev1.ObjectCounts{
			Total: r.Counts.Total, Healthy: r.Counts.Healthy, Progressing: r.Counts.Progressing, Failed: r.Counts.Failed,
		},
		AppliedAt:           Timestamp(r.AppliedAt),
		ApplyDuration:       Duration(r.ApplyDuration),
		ObservedSyncRequest: r.ObservedSyncRequest,
		PhaseSince:          Timestamp(r.PhaseSince),

		ObservedDigests:      r.ObservedDigests,
		ObservedCommits:      r.ObservedCommits,
		ObservedConfigDigest: r.ObservedConfigDigest,
		PlannedAt:            Timestamp(r.PlannedAt),
		Timings:              TimingsMessage(r.Timings),
		Drift:                driftMessages(r.Drift),
		Tests:                testMessages(r.Tests),
		DryRun:               dryRunMessage(r.DryRun),
		GuardedSpecDigest:    r.GuardedDigest,
		Guarded:              refMessages(r.Guarded),
	}
	for _, o := range r.Objects {
		m.Objects = append(m.Objects, &typev1.ObjectStatus{
			Ref:     &typev1.ObjectRef{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name},
			Health:  typev1.Health(typev1.Health_value["HEALTH_"+o.Health]),
			Problem: ProblemMessage(o.Problem),
		})
	}
	return m
}

// TimingsMessage returns the message of timings, or nil if nothing was reached.
func TimingsMessage(t catalog.Timings) *distributorv1.Timings {
	if t == (catalog.Timings{}) {
		return nil
	}
	return &distributorv1.Timings{
		ArrivedAt: Timestamp(t.ArrivedAt), Download: Duration(t.Download), Render: Duration(t.Render), Apply: Duration(t.Apply), Healthy: Duration(t.Healthy),
	}
}

func timingsOf(m *distributorv1.Timings) catalog.Timings {
	return catalog.Timings{
		ArrivedAt: TimeOf(m.GetArrivedAt()),
		Download:  m.GetDownload().AsDuration(),
		Render:    m.GetRender().AsDuration(),
		Apply:     m.GetApply().AsDuration(),
		Healthy:   m.GetHealthy().AsDuration(),
	}
}

// ReportOf returns the report of a message.
func ReportOf(m *distributorv1.ServiceReport) catalog.ServiceReport {
	r := catalog.ServiceReport{
		Phase:               phaseOf(m.GetPhase()),
		Problem:             problemOf(m.GetProblem()),
		ObservedSpecDigest:  m.GetObservedSpecDigest(),
		AppliedDigests:      m.GetAppliedDigests(),
		AppliedCommits:      m.GetAppliedCommits(),
		AppliedConfigDigest: m.GetAppliedConfigDigest(),
		Counts: catalog.Counts{
			Total: m.GetCounts().GetTotal(), Healthy: m.GetCounts().GetHealthy(),
			Progressing: m.GetCounts().GetProgressing(), Failed: m.GetCounts().GetFailed(),
		},
		AppliedAt:           TimeOf(m.GetAppliedAt()),
		ApplyDuration:       m.GetApplyDuration().AsDuration(),
		ObservedSyncRequest: m.GetObservedSyncRequest(),
		PhaseSince:          TimeOf(m.GetPhaseSince()),

		ObservedDigests:      m.GetObservedDigests(),
		ObservedCommits:      m.GetObservedCommits(),
		ObservedConfigDigest: m.GetObservedConfigDigest(),
		PlannedAt:            TimeOf(m.GetPlannedAt()),
		Timings:              timingsOf(m.GetTimings()),
		Drift:                driftOf(m.GetDrift()),
		Tests:                testsOf(m.GetTests()),
		DryRun:               dryRunOf(m.GetDryRun()),
		GuardedDigest:        m.GetGuardedSpecDigest(),
		Guarded:              refsOf(m.GetGuarded()),
	}
	objects := m.GetObjects()
	for _, o := range objects[:min(len(objects), maxReportObjects)] {
		r.Objects = append(r.Objects, objectOf(o))
	}
	return r
}

func objectOf(m *typev1.ObjectStatus) catalog.ObjectStatus {
	ref := m.GetRef()
	return catalog.ObjectStatus{
		Group:     ref.GetGroup(),
		Version:   ref.GetVersion(),
		Kind:      ref.GetKind(),
		Namespace: ref.GetNamespace(),
		Name:      ref.GetName(),
		Health:    strings.TrimPrefix(m.GetHealth().String(), "HEALTH_"),
		Problem:   problemOf(m.GetProblem()),
	}
}

func phaseOf(p typev1.ServicePhase) catalog.Phase {
	if p == typev1.ServicePhase_SERVICE_PHASE_UNSPECIFIED {
		return catalog.PhaseUnknown
	}
	return catalog.Phase(strings.TrimPrefix(p.String(), "SERVICE_PHASE_"))
}
