// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/enumname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// ReportMessage returns the message of a service's report.
func ReportMessage(s *catalog.Service, r *catalog.ServiceReport) *distributorv1.ServiceReport {
	return &distributorv1.ServiceReport{
		Service:             s.LocalName(),
		ServiceUid:          s.UID,
		Phase:               enumname.Value[typev1.ServicePhase](string(r.Phase)),
		Problem:             catalogwire.ProblemMessage(r.Problem),
		ObservedSpecDigest:  r.ObservedSpecDigest,
		AppliedDigests:      r.AppliedDigests,
		AppliedCommits:      r.AppliedCommits,
		AppliedVersions:     r.AppliedVersions,
		AppliedConfigDigest: r.AppliedConfigDigest,
		Counts: &typev1.ObjectCounts{
			Total: r.Counts.Total, Healthy: r.Counts.Healthy, Progressing: r.Counts.Progressing, Failed: r.Counts.Failed,
		},
		AppliedAt:           catalogwire.Timestamp(r.AppliedAt),
		ApplyDuration:       Duration(r.ApplyDuration),
		ObservedSyncRequest: r.ObservedSyncRequest,
		PhaseSince:          catalogwire.Timestamp(r.PhaseSince),

		ObservedDigests:      r.ObservedDigests,
		ObservedCommits:      r.ObservedCommits,
		ObservedVersions:     r.ObservedVersions,
		ObservedConfigDigest: r.ObservedConfigDigest,
		PlannedAt:            catalogwire.Timestamp(r.PlannedAt),
		Timings:              TimingsMessage(r.Timings),
		Drift:                Each(r.Drift, driftMessage),
		Tests:                Each(r.Tests, testMessage),
		RunningTest:          runningTestMessage(r.RunningTest),
		DryRun:               dryRunMessage(r.DryRun),
		GuardedSpecDigest:    r.GuardedDigest,
		Guarded:              Each(r.Guarded, refMessage),
		Objects:              Each(r.Objects, statusMessage),
		Warnings:             r.Warnings,
	}
}

// TimingsMessage returns the message of timings, or nil if nothing was reached.
func TimingsMessage(t catalog.Timings) *distributorv1.Timings {
	if t == (catalog.Timings{}) {
		return nil
	}
	return &distributorv1.Timings{
		ArrivedAt: catalogwire.Timestamp(t.ArrivedAt), Download: Duration(t.Download), Render: Duration(t.Render),
		RenderWait: Duration(t.RenderWait), Apply: Duration(t.Apply), Healthy: Duration(t.Healthy),
	}
}

func timingsOf(m *distributorv1.Timings) catalog.Timings {
	return catalog.Timings{
		ArrivedAt: catalogwire.TimeOf(m.GetArrivedAt()),
		Download:  m.GetDownload().AsDuration(),
		Render:    m.GetRender().AsDuration(),
		Apply:     m.GetApply().AsDuration(),
		Healthy:   m.GetHealthy().AsDuration(),

		RenderWait: m.GetRenderWait().AsDuration(),
	}
}

// triggerOf returns what brought the content that a report is about.
func triggerOf(m *distributorv1.ServiceReport) *catalog.Trigger {
	if m.GetTraceparent() == "" && m.GetFetchBeganAt() == nil {
		return nil
	}
	return &catalog.Trigger{
		Traceparent: m.GetTraceparent(), FetchBegan: catalogwire.TimeOf(m.GetFetchBeganAt()), Fetch: m.GetFetchDuration().AsDuration(),
	}
}

// FetchMessage returns the messages of a fetch, unset if there was none.
func FetchMessage(began time.Time, took time.Duration) (*timestamppb.Timestamp, *durationpb.Duration) {
	if began.IsZero() {
		return nil, nil
	}
	return timestamppb.New(began), durationpb.New(took)
}

// maxSourceText bounds the version of a source, as leat.type.v1.Snapshot does, its commit and its digest.
const maxSourceText = 256

// ofSources returns the versions, commits or digests that an agent reports, without the ones that no plan can
// hold: at most one for each source, and none that is too long. People see them in lists.
func ofSources(reported []string) []string {
	if len(reported) > catalog.MaxSources {
		return nil
	}
	return Each(reported, func(text string) string {
		if len(text) > maxSourceText {
			return ""
		}
		return text
	})
}

// ReportOf returns the report of a message.
func ReportOf(m *distributorv1.ServiceReport) catalog.ServiceReport {
	return catalog.ServiceReport{
		Phase:               catalog.Phase(enumname.Of(m.GetPhase())),
		Problem:             catalogwire.ProblemOf(m.GetProblem()),
		ObservedSpecDigest:  m.GetObservedSpecDigest(),
		AppliedDigests:      ofSources(m.GetAppliedDigests()),
		AppliedCommits:      ofSources(m.GetAppliedCommits()),
		AppliedVersions:     ofSources(m.GetAppliedVersions()),
		AppliedConfigDigest: m.GetAppliedConfigDigest(),
		Counts: catalog.Counts{
			Total: m.GetCounts().GetTotal(), Healthy: m.GetCounts().GetHealthy(),
			Progressing: m.GetCounts().GetProgressing(), Failed: m.GetCounts().GetFailed(),
		},
		AppliedAt:           catalogwire.TimeOf(m.GetAppliedAt()),
		ApplyDuration:       m.GetApplyDuration().AsDuration(),
		ObservedSyncRequest: m.GetObservedSyncRequest(),
		PhaseSince:          catalogwire.TimeOf(m.GetPhaseSince()),

		ObservedDigests:      ofSources(m.GetObservedDigests()),
		ObservedCommits:      ofSources(m.GetObservedCommits()),
		ObservedVersions:     ofSources(m.GetObservedVersions()),
		ObservedConfigDigest: m.GetObservedConfigDigest(),
		PlannedAt:            catalogwire.TimeOf(m.GetPlannedAt()),
		Timings:              timingsOf(m.GetTimings()),
		Trigger:              triggerOf(m),
		Drift:                Each(first(m.GetDrift(), maxReportObjects), driftOf),
		Tests:                Each(first(m.GetTests(), maxReportObjects), testOf),
		RunningTest:          runningTestOf(m.GetRunningTest()),
		DryRun:               dryRunOf(m.GetDryRun()),
		GuardedDigest:        m.GetGuardedSpecDigest(),
		Guarded:              Each(first(m.GetGuarded(), maxReportObjects), refOf),
		Objects:              Each(first(m.GetObjects(), maxReportObjects), statusOf),
		Warnings:             Each(first(m.GetWarnings(), maxRenderWarnings), renderWarningOf),
	}
}
