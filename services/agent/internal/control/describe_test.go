// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/overview"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// described is a cluster whose overview is reported.
type described struct {
	*overview.Summary

	describer *control.Describer

	mu      sync.Mutex
	version string
	asked   int
	err     error // in place of the version
}

// answers sets the API server's answer from now on.
func (d *described) answers(version string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version, d.err = version, err
}

// questions returns how often the version was requested.
func (d *described) questions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// withDescriber runs a Describer of a cluster that is known to be empty.
func withDescriber(
	t *testing.T, answer func(n int) (*distributorv1.ReportStatusResponse, error), test func(*testing.T, *reportHub, *control.Reports, *described),
) {
	t.Helper()
	withReports(t, answer, func(t *testing.T, h *reportHub, r *control.Reports) {
		d := &described{Summary: overview.NewSummary(), version: "v1.36.3"}
		for source := overview.Nodes; source <= overview.Warnings; source++ {
			d.SetKnown(source, true)
		}
		d.describer = control.NewDescriber(control.DescriberParams{
			Reports: r, Summary: d.Summary, AgentVersion: "v1", Capabilities: []string{"diff", "overview"}, Lock: ownLock(t),
			Logger: slog.New(slog.DiscardHandler),
			Version: func(context.Context) (string, error) {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.asked++
				return d.version, d.err
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.describer.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("describer ended: %v", err)
			}
		}()
		r.Adopted("v")
		pass(time.Minute)
		test(t, h, r, d)
	})
}

// parts names the parts of a cluster in a report.
func parts(r *distributorv1.ReportStatusRequest) (text string) {
	o := r.GetCluster().GetOverview()
	for name, is := range map[string]bool{"n": o.GetNodes() != nil, "p": o.GetPods() != nil, "w": o.GetWarnings() != nil} {
		if is {
			text += name
		}
	}
	if r.GetFull() {
		text += " full"
	}
	return text
}

func (h *reportHub) last() *distributorv1.ReportStatusRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests[len(h.requests)-1]
}

// TestOverviewOnTheWire reports all parts of a cluster.
func TestOverviewOnTheWire(t *testing.T) {
	withDescriber(t, nil, func(t *testing.T, h *reportHub, r *control.Reports, d *described) {
		d.PutNode("a", overview.Node{
			Ready: true, Cordoned: true, Kubelet: "v1.36.3",
			Capacity:    overview.Resources{CPUMillis: 4000, MemoryBytes: 1 << 33, Pods: 110},
			Allocatable: overview.Resources{CPUMillis: 3900, MemoryBytes: 1 << 32, Pods: 100},
		})
		for i, source := range []overview.Source{
			overview.PodsPending, overview.PodsRunning, overview.PodsSucceeded, overview.PodsFailed, overview.PodsUnknown,
		} {
			d.Count(source, i+1)
		}
		d.Count(overview.Warnings, 7)
		d.PutWarning("w", overview.Warning{
			Reason: "BackOff", Kind: "Pod", Namespace: "shop", Name: "web-0", Message: "no", Times: 3, LastSeen: time.Unix(5, 0),
		})
		pass(time.Minute)
		r.Forget("nobody") // a full report
		pass(time.Minute)
		got := h.last().GetCluster()
		want := &distributorv1.ClusterReport{
			AgentVersion: "v1", KubernetesVersion: "v1.36.3", Nodes: 1, StartedAt: got.GetStartedAt(), Capabilities: []string{"diff", "overview"},
			Lock: &distributorv1.ClusterLock{Local: true, AllowedAccounts: []string{"team-a/*"}},
			Overview: &distributorv1.ClusterOverview{
				Nodes: &distributorv1.NodesOverview{
					Count: 1, Ready: 1, Cordoned: 1, KubeletVersions: map[string]int32{"v1.36.3": 1},
					Capacity:    &distributorv1.ResourceTotals{CpuMillis: 4000, MemoryBytes: 1 << 33, Pods: 110},
					Allocatable: &distributorv1.ResourceTotals{CpuMillis: 3900, MemoryBytes: 1 << 32, Pods: 100},
				},
				Pods: &distributorv1.PodsOverview{Pending: 1, Running: 2, Succeeded: 3, Failed: 4, Unknown: 5},
				Warnings: &distributorv1.WarningsOverview{Count: 7, Latest: []*distributorv1.ClusterWarning{{
					Reason: "BackOff", Kind: "Pod", Namespace: "shop", Name: "web-0", Message: "no", Times: 3, LastSeenAt: &timestamppb.Timestamp{Seconds: 5},
				}}},
			},
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || !h.last().GetFull() {
			t.Errorf("full=%t (-want +got):\n%s", h.last().GetFull(), diff)
		}
	})
}

// ownLock returns the lock of the described cluster.
func ownLock(t *testing.T) accounts.Lock {
	t.Helper()
	lock, err := accounts.NewLock(true, []string{"team-a/*"}, "leat-system")
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// TestLocksAreReported has the hub's settings lock and unlock the cluster, and lock it twice.
func TestLocksAreReported(t *testing.T) {
	withDescriber(t, nil, func(t *testing.T, h *reportHub, _ *control.Reports, d *described) {
		for _, isLocked := range []bool{true, false, true} {
			before := h.count()
			for range 2 {
				d.describer.SetHubLock(isLocked)
				pass(time.Minute)
			}
			want := &distributorv1.ClusterLock{Local: true, Hub: isLocked, AllowedAccounts: []string{"team-a/*"}}
			if got := h.last().GetCluster(); h.count() != before+1 || !proto.Equal(got.GetLock(), want) || got.GetOverview() != nil {
				t.Errorf("after the hub's lock is %v: got %d reports, %v, want one with %v alone", isLocked, h.count()-before, got, want)
			}
		}
	})
}

// TestEveryPartOfAClusterIsSent has reports that differ in one field of ClusterReport each. A field that
// the comparison or the selection of parts forgets is never sent.
func TestEveryPartOfAClusterIsSent(t *testing.T) {
	t.Parallel()
	fields := (&distributorv1.ClusterReport{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		t.Run(string(field.Name()), func(t *testing.T) {
			withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
				r.Adopted("v")
				r.Describe(&distributorv1.ClusterReport{})
				pass(time.Minute)
				changed := &distributorv1.ClusterReport{}
				fill(changed.ProtoReflect(), field)
				r.Describe(changed)
				pass(time.Minute)
				if got := h.last().GetCluster(); !proto.Equal(got, changed) {
					t.Errorf("got %v, want %v", got, changed)
				}
			})
		})
	}
}

// fill sets a field of a message to a value that is not its default.
func fill(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	one := func(value protoreflect.Value) protoreflect.Value {
		switch field.Kind() {
		case protoreflect.MessageKind:
			inner := value.Message()
			for i := range inner.Descriptor().Fields().Len() {
				if f := inner.Descriptor().Fields().Get(i); f.Cardinality() != protoreflect.Repeated {
					fill(inner, f)
				}
			}
			return value
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(1)
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(1)
		default:
			return protoreflect.ValueOfString("a")
		}
	}
	if field.IsList() {
		list := m.NewField(field).List()
		list.Append(one(list.NewElement()))
		m.Set(field, protoreflect.ValueOfList(list))
		return
	}
	m.Set(field, one(m.NewField(field)))
}

// TestOverviewIsDebounced has a cluster that changes continuously.
func TestOverviewIsDebounced(t *testing.T) {
	withDescriber(t, func(int) (*distributorv1.ReportStatusResponse, error) {
		return &distributorv1.ReportStatusResponse{}, nil
	},
		func(t *testing.T, h *reportHub, _ *control.Reports, d *described) {
			before := h.count()
			d.Count(overview.PodsRunning, 1)
			pass(time.Second)
			if got := h.count(); got != before+1 || h.last().GetCluster().GetOverview().GetPods().GetRunning() != 1 {
				t.Fatalf("got %d reports within a second of the first change, want 1", got-before)
			}
			pass(time.Minute)
			for i := range 1000 {
				d.Count(overview.PodsRunning, 2+i)
				pass(10 * time.Millisecond)
			}
			pass(5 * time.Second)
			if got := h.count() - before; got < 5 || got > 12 {
				t.Errorf("got %d reports of 10 s of changes, want about one a second, as far as the hub keeps up", got)
			}
			if got := h.last(); got.GetCluster().GetOverview().GetPods().GetRunning() != 1001 || parts(got) != "p" {
				t.Errorf("got %v, want the last change and nothing else", got)
			}
			if got := h.size(h.count() - 1); got > 128 {
				t.Errorf("got a report of %d bytes, want at most 128", got)
			}
			before = h.count()
			pass(24 * time.Hour)
			if got := h.count(); got != before {
				t.Errorf("got %d reports of a day without a change", got-before)
			}
		})
}

// TestOverviewIsNeverLost has a hub that is unreachable, and one that has lost its state.
func TestOverviewIsNeverLost(t *testing.T) {
	var away, forgot atomic.Bool
	withDescriber(t, func(int) (*distributorv1.ReportStatusResponse, error) {
		if away.Load() {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
		}
		return &distributorv1.ReportStatusResponse{WantFull: forgot.Swap(false)}, nil
	}, func(t *testing.T, h *reportHub, r *control.Reports, d *described) {
		away.Store(true)
		d.Count(overview.PodsRunning, 1)
		pass(5 * time.Second)
		d.PutNode("a", overview.Node{})
		pass(5 * time.Second)
		d.Count(overview.PodsRunning, 2)
		pass(time.Minute)
		away.Store(false)
		pass(time.Minute)
		got := h.last()
		if o := got.GetCluster().GetOverview(); o.GetPods().GetRunning() != 2 || o.GetNodes().GetCount() != 1 || o.GetWarnings() != nil || got.GetFull() {
			t.Errorf("after the hub was away: got %v, want nodes and pods", got)
		}

		forgot.Store(true)
		d.Count(overview.Warnings, 1)
		pass(time.Minute)
		if got := h.last(); len(parts(got)) != len("npw full") {
			t.Errorf("after the hub forgot: got %v, want everything", got)
		}

		r.Report(status("web", report.Healthy))
		pass(time.Minute)
		if got := h.last(); got.GetCluster() != nil {
			t.Errorf("report of a service: got %v, want nothing of the cluster", got)
		}

		d.SetKnown(overview.Nodes, false) // which only a full report can express
		pass(time.Minute)
		if got := h.last(); !got.GetFull() || got.GetCluster().GetOverview().GetNodes() != nil || got.GetCluster().GetNodes() != 0 ||
			got.GetCluster().GetOverview().GetPods() == nil {
			t.Errorf("nodes that may not be seen any more: got %v, want a full report without", got)
		}
		d.SetKnown(overview.Nodes, true)
		pass(time.Minute)
		if got := parts(h.last()); got != "n" {
			t.Errorf("nodes that may be seen again: got %q, want nodes", got)
		}
	})
}

// TestRandomReports has a hub that fails, loses its state, and otherwise applies reports as the
// contract demands. In the end the hub has the whole state.
func TestRandomReports(t *testing.T) {
	const lost, forgotten = 1, 2
	fates := map[int]int{} // of reports; guarded by the hub
	withDescriber(t, func(n int) (*distributorv1.ReportStatusResponse, error) {
		switch {
		case n < 200 && n%3 == 1:
			fates[n] = lost
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("away"))
		case n < 200 && n%17 == 2:
			fates[n] = forgotten
			return &distributorv1.ReportStatusResponse{WantFull: true}, nil
		default:
			return &distributorv1.ReportStatusResponse{}, nil
		}
	}, func(t *testing.T, h *reportHub, r *control.Reports, d *described) {
		for i := range 300 {
			switch i % 7 {
			case 0, 3:
				d.PutNode(fmt.Sprint(i%5), overview.Node{Kubelet: fmt.Sprint(i)})
			case 1:
				d.DropNode(fmt.Sprint(i % 3))
			case 2, 5:
				d.Count(overview.PodsRunning, i)
			case 4:
				d.Count(overview.Warnings, i)
				d.PutWarning(fmt.Sprint(i%20), overview.Warning{Reason: fmt.Sprint(i), LastSeen: time.Unix(int64(i), 0)})
			case 6:
				d.SetKnown(overview.Source(i%int(overview.Warnings+1)), i%2 == 0)
			}
			pass(time.Duration(i%9) * 300 * time.Millisecond)
		}
		pass(10 * time.Minute)
		known := &distributorv1.ClusterOverview{}
		h.mu.Lock()
		for i, request := range h.requests {
			switch fates[i+1] {
			case lost:
			case forgotten:
				known = &distributorv1.ClusterOverview{}
			default:
				take(known, request)
			}
		}
		t.Logf("%d reports, %d of them lost or forgotten", len(h.requests), len(fates))
		h.mu.Unlock()
		r.Forget("nobody") // a full report lists everything
		pass(time.Minute)
		if diff := cmp.Diff(h.last().GetCluster().GetOverview(), known, protocmp.Transform()); diff != "" {
			t.Errorf("what the hub knows (-want +got):\n%s", diff)
		}
	})
}

// take applies a report as the contract demands.
func take(known *distributorv1.ClusterOverview, r *distributorv1.ReportStatusRequest) {
	o := r.GetCluster().GetOverview()
	if r.GetFull() || o.GetNodes() != nil {
		known.Nodes = o.GetNodes()
	}
	if r.GetFull() || o.GetPods() != nil {
		known.Pods = o.GetPods()
	}
	if r.GetFull() || o.GetWarnings() != nil {
		known.Warnings = o.GetWarnings()
	}
}

// TestVersionIsAskedFor counts the requests for the API server's version.
func TestVersionIsAskedFor(t *testing.T) {
	withDescriber(t, nil, func(t *testing.T, h *reportHub, _ *control.Reports, d *described) {
		if d.questions() != 1 || h.last().GetCluster().GetKubernetesVersion() != "v1.36.3" {
			t.Errorf("got %d questions and %v at the start, want one, and its answer", d.questions(), h.last())
		}
		pass(24 * time.Hour)
		if got := d.questions(); got < 20 || got > 33 {
			t.Errorf("got %d questions in a day, want one an hour", got)
		}
		reports, before := h.count(), d.questions()
		d.answers("v1.37.0", nil)
		for range 100 { // watches find a server that comes and goes
			d.describer.Back()
			pass(time.Second)
		}
		if got := d.questions() - before; got < 1 || got > 3 {
			t.Errorf("got %d questions of 100 s in which the server comes and goes, want one a minute", got)
		}
		pass(time.Minute)
		if got := h.last().GetCluster(); got.GetKubernetesVersion() != "v1.37.0" || h.count() != reports+1 {
			t.Errorf("got %d reports, the last %v, want one of the new version", h.count()-reports, got)
		}
		d.answers("", errors.New("away"))
		d.describer.Back()
		pass(10 * time.Minute)
		d.answers("v1.38.0", nil)
		pass(time.Minute)
		if got := h.last().GetCluster().GetKubernetesVersion(); got != "v1.38.0" {
			t.Errorf("got %s, want what the server says now that it is back", got)
		}
	})
}

// TestWithoutOverview describes a cluster without an overview.
func TestWithoutOverview(t *testing.T) {
	withReports(t, nil, func(t *testing.T, h *reportHub, r *control.Reports) {
		d := control.NewDescriber(control.DescriberParams{
			Reports: r, AgentVersion: "v1", Logger: slog.New(slog.DiscardHandler),
			Version: func(context.Context) (string, error) { return "v1.36.3", nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		r.Adopted("v")
		pass(time.Minute)
		synctest.Wait()
		if got := h.last().GetCluster(); got.GetKubernetesVersion() != "v1.36.3" || got.GetAgentVersion() != "v1" || got.GetOverview().GetNodes() != nil {
			t.Errorf("got %v, want both versions, and nothing else", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
