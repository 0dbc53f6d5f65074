// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/wire"
)

func planOf(message *distributorv1.Plan) (plan.Plan, error) {
	p := plan.Plan{Version: message.GetVersion(), Facts: wire.FactsOf(message.GetCluster(), message.GetFacts())}
	if message.GetTime() != nil {
		p.Time = message.GetTime().AsTime()
	}
	if message.GetRemovalsHeldSince() != nil {
		p.RemovalsHeldSince = message.GetRemovalsHeldSince().AsTime()
	}
	seen := map[string]bool{}
	for _, s := range message.GetServices() {
		service, err := serviceOf(s)
		if err != nil {
			return plan.Plan{}, fmt.Errorf("service %q: %w", s.GetName(), err)
		}
		if service.Name == "" || seen[service.Name] {
			return plan.Plan{}, fmt.Errorf("service %q: empty or twice", service.Name)
		}
		seen[service.Name] = true
		p.Services = append(p.Services, service)
	}
	p.Settings, _ = policywire.Settings(message.GetSettings()) // unknown parts do not keep the plan from being followed
	return p, nil
}

func serviceOf(message *distributorv1.PlanService) (plan.Service, error) {
	spec, err := policywire.Planned(message.GetApply())
	service := plan.Service{
		Name: message.GetName(), UID: message.GetUid(), SpecDigest: message.GetSpecDigest(),
		ConfigDigest: message.GetConfigDigest(), SyncRequest: message.GetSyncRequest(), Spec: spec,
		Trigger: plan.Trigger{
			Traceparent: message.GetTraceparent(), Fetch: message.GetFetchDuration().AsDuration(),
		},
	}
	if message.GetFetchBeganAt() != nil {
		service.FetchBegan = message.GetFetchBeganAt().AsTime()
	}
	if err != nil {
		service.Refused = wire.Refused(err)
	}
	for _, b := range message.GetBundles() {
		bundle, err := wire.BundleOf(b)
		if err != nil {
			return plan.Service{}, err
		}
		service.Bundles = append(service.Bundles, bundle)
	}
	return service, nil
}

func reportOf(s report.Status) *distributorv1.ServiceReport {
	report := &distributorv1.ServiceReport{
		Service: s.Service, ServiceUid: s.UID, Phase: wire.Phase(s.Phase), Problem: wire.Problem(s.Problem),
		ObservedSpecDigest: s.Observed.SpecDigest, AppliedDigests: s.Applied.Digests, AppliedCommits: s.Applied.Commits,
		AppliedVersions:     s.Applied.Versions,
		AppliedConfigDigest: s.Applied.ConfigDigest, Counts: countsOf(s.Counts),
		AppliedAt: timeOf(s.Applied.At), ApplyDuration: durationpb.New(s.Applied.Took),
		ObservedSyncRequest: s.ObservedSyncRequest, PhaseSince: timeOf(s.PhaseSince),
		PlannedAt: timeOf(s.Planned), Traceparent: s.Trigger.Traceparent, FetchBeganAt: timeOf(s.Trigger.FetchBegan),
		FetchDuration: spanOf(s.Trigger.Fetch), Timings: timingsOf(s.Timings), Drift: driftOf(s.Drift),
		Tests: testsOf(s.Tests), RunningTest: runningTestOf(s.RunningTest), DryRun: dryRunOf(s.DryRun), Warnings: s.Warnings,
	}
	for _, o := range s.Objects {
		report.Objects = append(report.Objects, wire.Object(o))
	}
	report.GuardedSpecDigest = s.Guarded.Digest
	for _, ref := range s.Guarded.Objects {
		report.Guarded = append(report.Guarded, wire.Ref(ref))
	}
	if !complete(s.Phase) {
		report.ObservedDigests, report.ObservedCommits = s.Observed.Digests, s.Observed.Commits
		report.ObservedVersions, report.ObservedConfigDigest = s.Observed.Versions, s.Observed.ConfigDigest
	}
	return report
}

// complete tells phases in which everything desired is applied: what was tried last need not be
// told twice then.
func complete(p report.Phase) bool {
	return p == report.Progressing || p == report.Healthy || p == report.Degraded
}

func timingsOf(t report.Timings) *distributorv1.Timings {
	if t == (report.Timings{}) {
		return nil
	}
	return &distributorv1.Timings{
		ArrivedAt: timeOf(t.Arrived), Download: spanOf(t.Download), Render: spanOf(t.Render), Apply: spanOf(t.Apply), Healthy: spanOf(t.Healthy),
		RenderWait: spanOf(t.RenderWait),
	}
}

// spanOf is unset for zero.
func spanOf(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func countsOf(c health.Counts) *typev1.ObjectCounts {
	return &typev1.ObjectCounts{
		Total: clamp(c.Total), Healthy: clamp(c.Healthy), Progressing: clamp(c.Progressing), Failed: clamp(c.Failed),
	}
}

func clamp(n int) int32 {
	return int32(min(n, math.MaxInt32))
}

func driftOf(drift []report.ObjectDrift) []*distributorv1.ObjectDrift {
	var all []*distributorv1.ObjectDrift
	for _, o := range drift {
		m := &distributorv1.ObjectDrift{Ref: wire.Ref(o.Ref)}
		for _, f := range o.Fields {
			m.Fields = append(m.Fields, &distributorv1.FieldDrift{Path: f.Path, Old: f.Old, New: f.New, Manager: f.Manager})
		}
		all = append(all, m)
	}
	return all
}
