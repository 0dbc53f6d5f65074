// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// reportHub receives reports.
type reportHub struct {
	distributorv1connect.DistributorServiceClient

	mu       sync.Mutex
	hellos   []*distributorv1.ReportStatusRequest
	requests []*distributorv1.ReportStatusRequest
	inFlight int
	answer   func(n int) (*distributorv1.ReportStatusResponse, error)
}

func (h *reportHub) ReportStatus(_ context.Context, r *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	h.mu.Lock()
	if !r.GetFull() && len(r.GetServices()) == 0 && r.GetCluster() == nil {
		defer h.mu.Unlock()
		h.hellos = append(h.hellos, r)
		return &distributorv1.ReportStatusResponse{WantFull: true, CurrentInstance: proto.String("the one before")}, nil
	}
	h.requests = append(h.requests, r)
	n := len(h.requests)
	h.inFlight++
	busy := h.inFlight > 1
	h.mu.Unlock()
	if busy {
		return nil, errors.New("two reports at once")
	}
	<-time.After(time.Second)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
	if h.answer != nil {
		return h.answer(n)
	}
	return &distributorv1.ReportStatusResponse{}, nil
}

func (h *reportHub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.requests)
}

func (h *reportHub) size(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return proto.Size(h.requests[n])
}

func names(r *distributorv1.ReportStatusRequest) (all []string) {
	for _, s := range r.GetServices() {
		all = append(all, s.GetService()+"="+s.GetPhase().String()[len("SERVICE_PHASE_"):])
	}
	return all
}

func withReports(t *testing.T, answer func(n int) (*distributorv1.ReportStatusResponse, error), test func(t *testing.T, h *reportHub, r *control.Reports)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &reportHub{answer: answer}
		r := control.NewReports(control.ReportParams{Hub: h, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		test(t, h, r)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("reports ended: %v", err)
		}
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func status(service string, phase report.Phase) report.Status {
	return report.Status{Service: service, Phase: phase}
}

func assertRequest(t *testing.T, h *reportHub, n int, full bool, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) <= n {
		t.Fatalf("reports: got %d, want more than %d", len(h.requests), n)
	}
	got := h.requests[n]
	if len(names(got)) != len(want) || got.GetFull() != full || got.GetSequence() != uint64(n+2) {
		t.Fatalf("report %d: got %v, full %v, sequence %d, want %v, full %v", n, names(got), got.GetFull(), got.GetSequence(), want, full)
	}
	for i, name := range names(got) {
		if name != want[i] {
			t.Errorf("report %d: got %v, want %v", n, names(got), want)
		}
	}
}

func TestReportsAreCoalesced(t *testing.T) {
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Describe(&distributorv1.ClusterReport{Nodes: 3})
		pass(time.Minute)
		if len(h.requests) != 0 {
			t.Fatalf("reports: got %d before there is a plan, want none", len(h.requests))
		}
		r.Adopted("v1")
		r.Report(status("a", report.Syncing))
		r.Report(status("b", report.Syncing))
		r.Report(status("a", report.Healthy))
		pass(300 * time.Millisecond)
		assertRequest(t, h, 0, true, "a=HEALTHY", "b=SYNCING")
		if got := h.requests[0]; got.GetCluster().GetNodes() != 3 || got.GetPlanVersion() != "v1" || got.GetReplaces() != "the one before" {
			t.Errorf("got %v, want the cluster's description, plan v1 and whom it replaces", got)
		}
		r.Report(status("b", report.Healthy)) // while the first is under way
		r.Report(status("b", report.Degraded))
		pass(3 * time.Second)
		assertRequest(t, h, 1, false, "b=DEGRADED")
		r.Forget("a")
		pass(3 * time.Second)
		assertRequest(t, h, 2, true, "b=DEGRADED")
		pass(time.Hour)
		if len(h.requests) != 3 || len(h.hellos) != 1 {
			t.Errorf("got %d reports after %d greetings, want 3 after 1: nothing changed", len(h.requests), len(h.hellos))
		}
		if got := h.requests[2].GetAcknowledged(); got != h.requests[1].GetSequence() {
			t.Errorf("acknowledged: got %d, want that of the report before", got)
		}
	})
}

func TestReportsAreNeverDropped(t *testing.T) {
	withReports(t, func(n int) (*distributorv1.ReportStatusResponse, error) {
		if n < 4 {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
		}
		return &distributorv1.ReportStatusResponse{WantFull: n == 5, CurrentInstance: proto.String("another")}, nil
	}, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v1")
		r.Report(status("a", report.Syncing))
		r.Report(status("b", report.Syncing))
		pass(500 * time.Millisecond)
		r.Report(status("a", report.Failed)) // newer than what the failing report holds
		pass(10 * time.Minute)
		assertRequest(t, h, 3, true, "a=FAILED", "b=SYNCING")
		r.Report(status("b", report.Healthy))
		pass(time.Minute)
		assertRequest(t, h, 4, false, "b=HEALTHY")
		assertRequest(t, h, 5, true, "a=FAILED", "b=HEALTHY") // the hub asked for it
		if got := h.requests[5]; got.GetReplaces() != "another" || got.GetAcknowledged() != h.requests[3].GetSequence() {
			t.Errorf("got %v, want it to replace what the hub has", got)
		}
	})
}

// TestPatience has the agent wait as long as a busy hub asks.
func TestPatience(t *testing.T) {
	withReports(t, func(n int) (*distributorv1.ReportStatusResponse, error) {
		if n == 1 {
			return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED, "busy", rpcerr.RetryAfter(time.Minute))
		}
		return &distributorv1.ReportStatusResponse{}, nil
	}, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		pass(time.Minute)
		if got := h.count(); got != 1 {
			t.Errorf("got %d reports within a minute, want 1", got)
		}
		pass(time.Minute)
		assertRequest(t, h, 1, true)
	})
}

// TestOneObjectIsASmallMessage makes one object of one of many large services unhealthy.
func TestOneObjectIsASmallMessage(t *testing.T) {
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		well := report.Status{
			Phase: report.Healthy, PhaseSince: time.Now(), Counts: health.Counts{Total: 500, Healthy: 500}, Planned: time.Now(),
			Timings: report.Timings{Arrived: time.Now(), Download: time.Second, Render: time.Second, Apply: time.Second, Healthy: time.Minute},
			Applied: inventory.Applied{
				SpecDigest: digest.FromBytes(nil).String(), Digests: []string{digest.FromBytes(nil).String()},
				Commits: []string{"0123456789012345678901234567890123456789"}, At: time.Now(), Took: time.Minute,
			},
		}
		well.Observed = well.Applied
		for i := range 200 {
			well.Service, well.UID = fmt.Sprintf("service-%03d", i), "0123456789abcdef0123456789abcdef"
			r.Report(well)
		}
		pass(3 * time.Second)
		ill := well
		ill.Service, ill.Counts.Healthy, ill.Counts.Progressing = "service-007", 499, 1
		ill.Objects = []report.ObjectStatus{{
			Ref:    inventory.Ref{Key: inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "checkout"}, Version: "v1"},
			Health: health.Verdict{State: health.Progressing, Message: "1 of 3 replicas are available"},
		}}
		r.Report(ill)
		pass(3 * time.Second)
		assertRequest(t, h, 1, false, "service-007=HEALTHY")
		if got := h.size(1); got > 512 {
			t.Errorf("got a report of %d bytes, want at most 512", got)
		}
		pass(24 * time.Hour)
		if got := h.count(); got != 2 {
			t.Errorf("got %d reports, want 2: a day passed without a change", got)
		}
	})
}

// TestDriftOnTheWire reports changes by others.
func TestDriftOnTheWire(t *testing.T) {
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		s := status("web", report.Healthy)
		s.Drift = []report.ObjectDrift{{
			Ref:    inventory.Ref{Key: inventory.Key{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, Version: "v1"},
			Fields: []fields.Change{{Path: "spec.replicas", Old: "1", New: "2", Manager: "kubectl"}},
		}}
		r.Report(s)
		pass(time.Minute)
		want := []*distributorv1.ObjectDrift{{
			Ref:    &typev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
			Fields: []*distributorv1.FieldDrift{{Path: "spec.replicas", Old: "1", New: "2", Manager: "kubectl"}},
		}}
		if diff := cmp.Diff(want, h.requests[0].GetServices()[0].GetDrift(), protocmp.Transform()); diff != "" {
			t.Errorf("drift (-want +got):\n%s", diff)
		}
	})
}

// TestTriggerTravels takes what brought a change out of a plan, and reports it.
func TestTriggerTravels(t *testing.T) {
	began := time.Unix(1000, 5).UTC()
	want := &distributorv1.ServiceReport{
		Traceparent: "00-1-2-01", FetchBeganAt: timestamppb.New(began), FetchDuration: durationpb.New(1500 * time.Millisecond),
	}
	plans := delivered(t, &distributorv1.Plan{Cluster: "mill", Version: "v1", Services: []*distributorv1.PlanService{
		{Name: "traced", Apply: &distributorv1.ApplySpec{}, Traceparent: want.GetTraceparent(), FetchBeganAt: want.GetFetchBeganAt(), FetchDuration: want.GetFetchDuration()},
		{Name: "edited", Apply: &distributorv1.ApplySpec{}},
	}})
	for _, p := range plans {
		if got := p.Services[0].Trigger; got != (plan.Trigger{Traceparent: "00-1-2-01", FetchBegan: began, Fetch: 1500 * time.Millisecond}) {
			t.Errorf("got %+v, want what the plan says", got)
		}
		if got := p.Services[1].Trigger; got != (plan.Trigger{}) {
			t.Errorf("without a fetch: got %+v, want nothing", got)
		}
	}
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		for _, entry := range plans[0].Services {
			s := status(entry.Name, report.Healthy)
			s.Trigger = entry.Trigger
			r.Report(s)
		}
		pass(time.Minute)
		for _, sent := range h.requests[0].GetServices() {
			got := &distributorv1.ServiceReport{Traceparent: sent.GetTraceparent(), FetchBeganAt: sent.GetFetchBeganAt(), FetchDuration: sent.GetFetchDuration()}
			want := map[string]*distributorv1.ServiceReport{"traced": want, "edited": {}}[sent.GetService()]
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", sent.GetService(), diff)
			}
		}
	})
}

// TestTestsOnTheWire reports tests, and a dry run.
func TestTestsOnTheWire(t *testing.T) {
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		ref := inventory.Ref{Key: inventory.Key{Group: "batch", Kind: "Job", Namespace: "shop", Name: "smoke"}, Version: "v1"}
		s := status("s", report.Degraded)
		s.Tests = []inventory.TestResult{{Ref: ref, Message: "no", LogTail: "end", StartedAt: time.Unix(1, 0), EndedAt: time.Unix(2, 0)}}
		s.DryRun = &report.DryRun{
			Created: 1, Updated: 2, Deleted: 3, Unchanged: 4,
			Changes: []report.DryRunChange{{Ref: ref, Change: report.Update}, {Ref: ref, Change: report.Adopt}},
		}
		r.Report(s)
		pass(time.Minute)
		wire := &typev1.ObjectRef{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "smoke"}
		want := &distributorv1.ServiceReport{
			Tests: []*distributorv1.TestReport{{
				Ref: wire, Message: "no", LogTail: "end", StartedAt: &timestamppb.Timestamp{Seconds: 1}, EndedAt: &timestamppb.Timestamp{Seconds: 2},
			}},
			DryRun: &distributorv1.DryRunReport{
				Created: 1, Updated: 2, Deleted: 3, Unchanged: 4,
				Changes: []*distributorv1.DryRunChange{
					{Ref: wire, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_UPDATE},
					{Ref: wire, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_ADOPT},
				},
			},
		}
		sent := h.requests[0].GetServices()[0]
		got := &distributorv1.ServiceReport{Tests: sent.GetTests(), DryRun: sent.GetDryRun()}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
	})
}

// TestWords checks that every value of the agent's own enumerations has its counterpart on the
// wire.
func TestWords(t *testing.T) {
	reasons := []reason.Reason{
		reason.ManifestInvalid, reason.ApplyRejected, reason.ApplyConflict, reason.HealthTimeout, reason.PruneGuarded,
		reason.BundleUnavailable, reason.ObjectClaimed, reason.ClusterUnreachable, reason.DeadlineExceeded, reason.Internal,
		reason.Unimplemented, reason.DriftDetected, reason.DependencyNotReady, reason.SyncWindowClosed, reason.TestFailed,
	}
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		r.Adopted("v")
		for i, why := range reasons {
			s := status(why.String(), report.Phase(i%int(report.Paused))+report.Pending)
			s.Problem = &reason.Problem{Reason: why}
			r.Report(s)
		}
		pass(time.Minute)
		if got := len(h.requests[0].GetServices()); got != len(reasons) {
			t.Fatalf("services: got %d, want %d", got, len(reasons))
		}
		for _, s := range h.requests[0].GetServices() {
			if got, want := s.GetProblem().GetReason().String(), "REASON_"+s.GetService(); got != want {
				t.Errorf("reason: got %s, want %s", got, want)
			}
			if s.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_UNSPECIFIED {
				t.Errorf("service %s: got no phase", s.GetService())
			}
		}
	})
}
