// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
)

// reporter reports as an agent does: one report at a time, every try in the newest form, until the
// hub has taken it.
type reporter struct {
	instance string
	sequence uint64
	acked    uint64
	greeted  bool
	replaces *string
	full     bool
	latest   map[string]*distributorv1.ServiceReport
	changed  map[string]bool
	// cluster is the latest of the cluster, part the parts of its overview that changed; nil while
	// nothing was said of it.
	cluster *distributorv1.ClusterReport
	part    *distributorv1.ClusterOverview
}

func newReporter() *reporter {
	r := &reporter{latest: map[string]*distributorv1.ServiceReport{}}
	r.restart()
	return r
}

// restart begins another process, which knows how its services fare.
func (r *reporter) restart() {
	r.instance, r.sequence, r.acked, r.greeted, r.replaces = rand.Text(), 0, 0, false, nil
	r.full, r.changed, r.part = true, map[string]bool{}, nil
}

// see has parts of the cluster's overview change.
func (r *reporter) see(part *distributorv1.ClusterOverview) {
	if r.cluster == nil {
		r.cluster = &distributorv1.ClusterReport{AgentVersion: "v1", Capabilities: []string{"overview"}, Overview: &distributorv1.ClusterOverview{}}
	}
	if r.part == nil {
		r.part = &distributorv1.ClusterOverview{}
	}
	for _, known := range []*distributorv1.ClusterOverview{r.cluster.GetOverview(), r.part} {
		known.Nodes, known.Pods = cmp.Or(part.GetNodes(), known.GetNodes()), cmp.Or(part.GetPods(), known.GetPods())
		known.Warnings = cmp.Or(part.GetWarnings(), known.GetWarnings())
	}
}

func (r *reporter) set(report *distributorv1.ServiceReport) {
	r.latest[report.GetService()], r.changed[report.GetService()] = report, true
}

func (r *reporter) forget(service string) {
	delete(r.latest, service)
	delete(r.changed, service)
	r.full = true
}

func (r *reporter) due() bool { return r.full || len(r.changed) > 0 || r.part != nil }

// next makes the next request.
func (r *reporter) next() *distributorv1.ReportStatusRequest {
	r.sequence++
	request := &distributorv1.ReportStatusRequest{Instance: r.instance, Sequence: r.sequence, Acknowledged: r.acked, PlanVersion: "v"}
	if !r.greeted {
		return request
	}
	if request.Full = r.full; r.full {
		request.Replaces = r.replaces
	}
	for _, name := range slices.Sorted(maps.Keys(r.latest)) {
		if r.full || r.changed[name] {
			request.Services = append(request.Services, r.latest[name])
		}
	}
	if r.full || r.part != nil {
		if request.Cluster = proto.CloneOf(r.cluster); !r.full {
			request.Cluster.Overview = r.part
		}
	}
	return copyOf(request) // its next report is not sent yet
}

// answered takes in what the hub said to the request, which was the latest.
func (r *reporter) answered(request *distributorv1.ReportStatusRequest, response *distributorv1.ReportStatusResponse) {
	switch {
	case response.GetWantFull():
		r.full, r.replaces = true, response.CurrentInstance
	case r.greeted:
		r.acked = request.GetSequence()
		r.full, r.changed, r.part = false, map[string]bool{}, nil
	}
	r.greeted = true
}

// flush reports until the hub has taken everything; call fails as often as it likes.
func (r *reporter) flush(t *testing.T, call func(*distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error)) {
	t.Helper()
	await.True(t, "the hub to take a report", func() bool {
		request := r.next()
		response, err := call(request)
		if err == nil {
			r.answered(request, response)
		}
		return !r.due()
	})
}

// stated is a report about content; the text makes it like no other.
func stated(service, uid, content, text string, phase typev1.ServicePhase) *distributorv1.ServiceReport {
	report := &distributorv1.ServiceReport{
		Service: service, ServiceUid: uid, Phase: phase, ObservedSpecDigest: "spec",
		Counts:    &typev1.ObjectCounts{Total: 1},
		Objects:   []*typev1.ObjectStatus{{Ref: &typev1.ObjectRef{Version: "v1", Kind: "Pod", Name: text}, Health: typev1.Health_HEALTH_DEGRADED}},
		PlannedAt: &timestamppb.Timestamp{Seconds: 1},
		Drift: []*distributorv1.ObjectDrift{{
			Ref:    &typev1.ObjectRef{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: text},
			Fields: []*distributorv1.FieldDrift{{Path: "spec.replicas", Old: "1", New: "2", Manager: "kubectl"}},
		}},
		Tests: []*distributorv1.TestReport{{
			Ref:    &typev1.ObjectRef{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: text},
			Passed: true, StartedAt: &timestamppb.Timestamp{Seconds: 1}, EndedAt: &timestamppb.Timestamp{Seconds: 2},
		}},
	}
	switch phase {
	case typev1.ServicePhase_SERVICE_PHASE_PROGRESSING, typev1.ServicePhase_SERVICE_PHASE_HEALTHY, typev1.ServicePhase_SERVICE_PHASE_DEGRADED:
		report.AppliedDigests = []string{content}
	default:
		report.ObservedDigests = []string{content}
	}
	return report
}

// rehearsed is the report in the form of a dry run.
func rehearsed(report *distributorv1.ServiceReport) *distributorv1.ServiceReport {
	report.DryRun = &distributorv1.DryRunReport{Unchanged: 1, Changes: []*distributorv1.DryRunChange{{
		Ref: &typev1.ObjectRef{Version: "v1", Kind: "ConfigMap", Name: "key"}, Action: distributorv1.DryRunAction_DRY_RUN_ACTION_DELETE,
	}}}
	return report
}

// contentOf is the content for which a report counts in a history; empty if there is none.
func contentOf(report *distributorv1.ServiceReport) string {
	digests := append(slices.Clone(report.GetAppliedDigests()), report.GetObservedDigests()...)
	if report.GetDryRun() != nil || report.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_PENDING || len(digests) == 0 {
		return ""
	}
	return digests[0]
}

// copyOf is a request as the network may deliver it a second time.
func copyOf(request *distributorv1.ReportStatusRequest) *distributorv1.ReportStatusRequest {
	return proto.CloneOf(request)
}
