// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// overviews is the agent of cluster one, which tells of its cluster through two replicas in turn.
type overviews struct {
	replicas []*hub
	token    string
	calls    int
}

func (o *overviews) say(t *testing.T, request *distributorv1.ReportStatusRequest) *distributorv1.ReportStatusResponse {
	t.Helper()
	o.calls++
	res, err := o.replicas[o.calls%len(o.replicas)].agents(t, o.token).ReportStatus(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// shown waits until every replica shows this report of the cluster.
func (o *overviews) shown(t *testing.T, want *distributorv1.ClusterReport) {
	t.Helper()
	difference := ""
	defer func() {
		if difference != "" {
			t.Errorf("report differs (-want +shown):\n%s", difference)
		}
	}()
	for _, replica := range o.replicas {
		await.True(t, "the replica to show the report", func() bool {
			res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), replica.fleet(t, adminToken), "one")
			if err != nil {
				t.Fatal(err)
			}
			difference = cmp.Diff(want, res.GetStatus().GetReport(), protocmp.Transform())
			return difference == ""
		})
	}
}

// nodesOverview, podsOverview and warningsOverview are parts with every field set.
func nodesOverview(n int32) *distributorv1.NodesOverview {
	return &distributorv1.NodesOverview{
		Count: n, Ready: n - 1, Cordoned: 1, KubeletVersions: map[string]int32{"v1.36.3": n - 1, "v1.36.2": 1},
		Capacity:    &distributorv1.ResourceTotals{CpuMillis: 4000, MemoryBytes: 16 << 30, Pods: 110},
		Allocatable: &distributorv1.ResourceTotals{CpuMillis: 3920, MemoryBytes: 15 << 30, Pods: 110},
	}
}

func podsOverview(running int32) *distributorv1.PodsOverview {
	return &distributorv1.PodsOverview{Pending: 1, Running: running, Succeeded: 2, Failed: 3, Unknown: 4}
}

func warningsOverview(count int32) *distributorv1.WarningsOverview {
	return &distributorv1.WarningsOverview{Count: count, Latest: []*distributorv1.ClusterWarning{{
		Reason: "FailedScheduling", Kind: "Pod", Namespace: "shop", Name: "web-0", Message: "0/3 nodes are available", Times: 7,
		LastSeenAt: timestamppb.New(time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)),
	}}}
}

// TestOverviewComesInParts has an agent tell of its cluster in parts, through replicas and a
// network that repeats and reorders: both replicas show all parts together, whichever they were
// told; a new process begins with what it knows itself.
func TestOverviewComesInParts(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	shared := func(c *distributor.Config) { c.DatabaseURL = url }
	a := startHub(t, shared)
	b := startReplica(t, a.git, shared)
	a.apply(t, clusterDocument("one"))
	agent := &overviews{replicas: []*hub{a, b}, token: a.enrol(t, "one").token}
	about := func(overview *distributorv1.ClusterOverview) *distributorv1.ClusterReport {
		return &distributorv1.ClusterReport{
			AgentVersion: "v0.5.0", KubernetesVersion: "v1.36.3", Nodes: 3, StartedAt: &timestamppb.Timestamp{Seconds: 1},
			Capabilities: []string{"leader-election", "overview"}, Overview: overview,
			Lock: &distributorv1.ClusterLock{Local: true, Hub: true, AllowedAccounts: []string{"team-a/*", "team-b/deployer"}},
		}
	}
	report := func(instance string, sequence uint64, full bool, overview *distributorv1.ClusterOverview) *distributorv1.ReportStatusRequest {
		return &distributorv1.ReportStatusRequest{Instance: instance, Sequence: sequence, Full: full, Cluster: about(overview)}
	}

	first := report("i", 1, true, nil)
	agent.say(t, first)
	agent.shown(t, about(nil))
	nodes := report("i", 2, false, &distributorv1.ClusterOverview{Nodes: nodesOverview(3)})
	pods := report("i", 3, false, &distributorv1.ClusterOverview{Pods: podsOverview(5)})
	agent.say(t, nodes)
	agent.say(t, pods)
	agent.shown(t, about(&distributorv1.ClusterOverview{Nodes: nodesOverview(3), Pods: podsOverview(5)}))

	late := report("i", 4, false, &distributorv1.ClusterOverview{Nodes: nodesOverview(9)})
	agent.say(t, report("i", 5, false, &distributorv1.ClusterOverview{Warnings: warningsOverview(2), Pods: podsOverview(6)}))
	for _, again := range []*distributorv1.ReportStatusRequest{late, pods, nodes, first, pods} {
		if res := agent.say(t, copyOf(again)); res.GetWantFull() {
			t.Errorf("got %v for a report that came late, want it ignored", res)
		}
	}
	all := &distributorv1.ClusterOverview{Nodes: nodesOverview(3), Pods: podsOverview(6), Warnings: warningsOverview(2)}
	agent.shown(t, about(all))

	// Another process: only a full report counts, and only its content.
	instance := "i"
	if res := agent.say(t, report("j", 1, false, &distributorv1.ClusterOverview{Pods: podsOverview(9)})); !res.GetWantFull() || res.GetCurrentInstance() != instance {
		t.Errorf("got %v, want a full report wanted", res)
	}
	agent.shown(t, about(all))
	restarted := report("j", 2, true, &distributorv1.ClusterOverview{Pods: podsOverview(7)})
	restarted.Replaces = proto.String(instance)
	agent.say(t, restarted)
	agent.say(t, report("i", 6, false, &distributorv1.ClusterOverview{Nodes: nodesOverview(9)}))
	agent.shown(t, about(&distributorv1.ClusterOverview{Pods: podsOverview(7)}))
	denied := report("k", 1, true, nil)
	denied.Replaces, denied.Cluster.Capabilities = proto.String("j"), nil
	agent.say(t, denied)
	agent.shown(t, denied.GetCluster())
}

// TestOverviewIsNotTrusted has an agent report more than it may, and impossible things: they are
// cut, and the rest of the report counts.
func TestOverviewIsNotTrusted(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"))
	agent := &overviews{replicas: []*hub{h}, token: h.enrol(t, "one").token}
	long := strings.Repeat("ä", 1000)
	said := &distributorv1.ClusterReport{
		AgentVersion: long, KubernetesVersion: long, Nodes: -1,
		Overview: &distributorv1.ClusterOverview{
			Nodes: &distributorv1.NodesOverview{
				Count: -1, Ready: -1, Cordoned: -1, KubeletVersions: map[string]int32{"": 1, long: 1, "none": 0, "less": -1},
				Capacity: &distributorv1.ResourceTotals{CpuMillis: -1, MemoryBytes: -1, Pods: -1}, Allocatable: &distributorv1.ResourceTotals{CpuMillis: 1},
			},
			Pods:     &distributorv1.PodsOverview{Pending: -1, Running: 1, Succeeded: -1, Failed: -1, Unknown: -1},
			Warnings: &distributorv1.WarningsOverview{Count: -1},
		},
	}
	said.Lock = &distributorv1.ClusterLock{}
	for n := range 100 {
		said.Lock.AllowedAccounts = append(said.Lock.AllowedAccounts, long)
		said.Capabilities = append(said.Capabilities, fmt.Sprintf("can-%02d", 99-n), "can-99")
		said.Overview.Nodes.KubeletVersions[fmt.Sprintf("v1.%02d", n)] = int32(1 + n/20)
		said.Overview.Warnings.Latest = append(said.Overview.Warnings.Latest, &distributorv1.ClusterWarning{
			Reason: long, Kind: long, Namespace: long, Name: long, Message: "a" + long, Times: -1,
			LastSeenAt: &timestamppb.Timestamp{Seconds: 1 << 60},
		})
	}
	agent.say(t, &distributorv1.ReportStatusRequest{Instance: "i", Sequence: 1, Full: true, Cluster: said})

	cut := strings.Repeat("ä", 128)
	want := &distributorv1.ClusterReport{AgentVersion: cut, KubernetesVersion: cut, Overview: &distributorv1.ClusterOverview{
		Nodes: &distributorv1.NodesOverview{Allocatable: &distributorv1.ResourceTotals{CpuMillis: 1}, KubeletVersions: map[string]int32{}},
		Pods:  &distributorv1.PodsOverview{Running: 1}, Warnings: &distributorv1.WarningsOverview{},
	}}
	want.Lock = &distributorv1.ClusterLock{AllowedAccounts: slices.Repeat([]string{cut}, 64)}
	for n := range 32 {
		want.Capabilities = append(want.Capabilities, fmt.Sprintf("can-%02d", 68+n))
	}
	for n := range 16 {
		want.Overview.Nodes.KubeletVersions[fmt.Sprintf("v1.%02d", 80+n)] = 5
	}
	for range 10 {
		want.Overview.Warnings.Latest = append(want.Overview.Warnings.Latest, &distributorv1.ClusterWarning{
			Reason: cut, Kind: cut, Namespace: cut, Name: cut, Message: "a" + strings.Repeat("ä", 127),
		})
	}
	agent.shown(t, want)
}

// TestSharedClustersWithoutALock has two projects use a cluster whose agent reports no lock, then one.
func TestSharedClustersWithoutALock(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, projectDocuments("shop")...)
	h.apply(t, clusterDocument("one"), repositoryDocument("demo"), serviceDocument("a", "one", "demo", "a"))
	agent := &overviews{replicas: []*hub{h}, token: h.enrol(t, "one").token}
	warned := func() (is bool) {
		res, err := h.queries(t, adminToken).GetFleetStatus(t.Context(), &fleetv1.GetFleetStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(res.GetProblems(), func(p *fleetv1.ProblemGroup) bool {
			return p.GetReason() == errorsv1.Reason_REASON_CLUSTER_UNLOCKED && p.GetSeverity() == fleetv1.ProblemSeverity_PROBLEM_SEVERITY_WARNING &&
				slices.Equal(p.GetExamples(), []string{"one"})
		})
	}
	report := func(sequence uint64, lock *distributorv1.ClusterLock) {
		cluster := &distributorv1.ClusterReport{AgentVersion: "v0.5.0", Lock: lock}
		agent.say(t, &distributorv1.ReportStatusRequest{Instance: "i", Sequence: sequence, Full: true, Cluster: cluster})
		agent.shown(t, cluster)
	}
	report(1, &distributorv1.ClusterLock{})
	if warned() {
		t.Error("got a warning of a cluster that one project uses, want none")
	}
	h.apply(t, in("shop", serviceDocument("b", "default/one", "default/demo", "b")))
	await.True(t, "the warning of a shared cluster", warned)
	report(2, &distributorv1.ClusterLock{Local: true})
	await.True(t, "the warning to end", func() bool { return !warned() })
}
