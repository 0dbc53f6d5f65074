// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// TestReportsEndAsTheAgentSays has an agent report through two replicas and a network that loses,
// repeats, delays and reorders, and restart at random: both replicas show the agent's last report
// in the end, and the history has the ones in between.
func TestReportsEndAsTheAgentSays(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t).Database(t)
	a := startHub(t, func(c *distributor.Config) { c.DatabaseURL, c.Intervals.CatalogPoll = url, 300*time.Millisecond })
	b := startReplica(t, a.git, func(c *distributor.Config) { c.DatabaseURL, c.Intervals.CatalogPoll = url, 300*time.Millisecond })
	a.apply(t, repositoryDocument("demo"))
	rounds := 4
	if os.Getenv("LEAT_FAULT_LONG") != "" {
		rounds = 300
	}
	for round := range rounds {
		seed := rand.Uint64()
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			n := newNetwork(t, fmt.Sprintf("cluster-%d", round), rand.New(rand.NewPCG(seed, 0)), a, b)
			for range 60 {
				n.step(t)
			}
			n.settle(t)
		})
		if !ok {
			return
		}
	}
}

// network is a cluster's agent, two replicas, and the network between them.
type network struct {
	cluster  string
	random   *rand.Rand
	agent    *reporter
	services map[string]string // uids
	names    []string
	replicas []distributorv1connect.DistributorServiceClient
	people   []fleetv1connect.FleetServiceClient
	delayed  []*distributorv1.ReportStatusRequest
	said     int

	// The expected stored state, by the replicas' answers.
	instance string
	sequence uint64
	contents map[string][]string
}

func newNetwork(t *testing.T, cluster string, random *rand.Rand, replicas ...*hub) *network {
	t.Helper()
	n := &network{cluster: cluster, random: random, agent: newReporter(), services: map[string]string{}, contents: map[string][]string{}}
	n.names = []string{cluster + "-a", cluster + "-b", cluster + "-c"}
	documents := []*fleetv1.Document{clusterDocument(cluster)}
	for _, name := range n.names {
		documents = append(documents, serviceDocument(name, cluster, "demo", "app"))
	}
	for _, outcome := range replicas[0].apply(t, documents...).GetOutcomes()[1:] {
		meta := outcome.GetDocument().GetService().GetMetadata()
		n.services[meta.GetName()] = meta.GetUid()
	}
	agent := replicas[0].enrol(t, cluster)
	for _, replica := range replicas {
		agents := replica.agents(t, agent.token)
		await.True(t, "the replica to know the agent", func() bool {
			_, err := agents.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
			return err == nil
		})
		n.replicas = append(n.replicas, agents)
		n.people = append(n.people, replica.fleet(t, adminToken))
	}
	return n
}

var reportedPhases = []typev1.ServicePhase{
	typev1.ServicePhase_SERVICE_PHASE_PENDING, typev1.ServicePhase_SERVICE_PHASE_SYNCING, typev1.ServicePhase_SERVICE_PHASE_PROGRESSING,
	typev1.ServicePhase_SERVICE_PHASE_HEALTHY, typev1.ServicePhase_SERVICE_PHASE_FAILED,
}

// step does one thing that may happen.
func (n *network) step(t *testing.T) {
	t.Helper()
	name := n.names[n.random.IntN(len(n.names))]
	switch n.random.IntN(20) {
	case 0:
		n.agent.restart()
	case 1:
		n.agent.forget(name)
	case 2, 3, 4, 5, 6, 7:
		n.said++
		content := fmt.Sprint("content ", n.random.IntN(3))
		phase := reportedPhases[n.random.IntN(len(reportedPhases))]
		// Sometimes it goes back to what it said before, which a stale replica may take for what it
		// knows.
		report := stated(name, n.services[name], content, fmt.Sprint("text ", n.said%4), phase)
		if n.random.IntN(4) == 0 {
			report = rehearsed(report)
		}
		n.agent.set(report)
	case 8:
		n.said++
		n.agent.see([]*distributorv1.ClusterOverview{
			{Nodes: nodesOverview(int32(2 + n.said%4))}, {Pods: podsOverview(int32(n.said % 4))}, {Warnings: warningsOverview(int32(n.said % 4))},
		}[n.random.IntN(3)])
	case 9, 10, 11:
		if len(n.delayed) > 0 {
			n.deliver(t, n.delayed[n.random.IntN(len(n.delayed))])
		}
	default:
		n.report(t)
	}
}

// report sends a due report, if there is one, over the network.
func (n *network) report(t *testing.T) {
	t.Helper()
	if !n.agent.due() {
		return
	}
	request := n.agent.next()
	if n.random.IntN(2) == 0 {
		n.delayed = append(n.delayed, copyOf(request))
	}
	if n.random.IntN(4) == 0 {
		return // it is lost, or comes later
	}
	response := n.deliver(t, request)
	if n.random.IntN(4) > 0 {
		n.agent.answered(request, response)
	}
}

// deliver brings a request to one of the replicas, and notes what that has to mean.
func (n *network) deliver(t *testing.T, request *distributorv1.ReportStatusRequest) *distributorv1.ReportStatusResponse {
	t.Helper()
	response, err := n.replicas[n.random.IntN(len(n.replicas))].ReportStatus(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	outdated := request.GetInstance() == n.instance && request.GetSequence() <= n.sequence
	if response.GetWantFull() || outdated {
		return response
	}
	n.instance, n.sequence = request.GetInstance(), request.GetSequence()
	for _, report := range request.GetServices() {
		name, content := report.GetService(), contentOf(report)
		if all := n.contents[name]; content != "" && (len(all) == 0 || all[len(all)-1] != content) {
			n.contents[name] = append(all, content)
		}
	}
	return response
}

// settle lets the agent send its last report, then all delayed reports arrive, and checks the
// result.
func (n *network) settle(t *testing.T) {
	t.Helper()
	n.agent.flush(t, func(request *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
		return n.deliver(t, request), nil
	})
	n.random.Shuffle(len(n.delayed), func(i, j int) { n.delayed[i], n.delayed[j] = n.delayed[j], n.delayed[i] })
	for _, request := range n.delayed {
		n.deliver(t, request)
	}
	for _, people := range n.people {
		for _, name := range n.names {
			n.assertStatus(t, people, name)
			n.assertHistory(t, people, name)
		}
		n.assertCluster(t, people)
	}
}

func (n *network) assertCluster(t *testing.T, people fleetv1connect.FleetServiceClient) {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), people, n.cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := n.agent.cluster
	if want == nil {
		want = &distributorv1.ClusterReport{AgentVersion: "v1"} // as it said when it enrolled
	}
	if diff := cmp.Diff(want, res.GetStatus().GetReport(), protocmp.Transform()); diff != "" {
		t.Errorf("cluster differs (-said +shown):\n%s", diff)
	}
}

func (n *network) assertStatus(t *testing.T, people fleetv1connect.FleetServiceClient, name string) {
	t.Helper()
	difference := ""
	defer func() {
		if difference != "" {
			t.Errorf("service %s differs (-said +shown):\n%s", name, difference)
		}
	}()
	await.True(t, "both replicas to show what the agent said last", func() bool {
		res, err := fleetcalls.Get[*fleetv1.Service](t.Context(), people, name)
		if err != nil {
			t.Fatal(err)
		}
		difference = cmp.Diff(n.agent.latest[name], res.GetStatus().GetReport(), protocmp.Transform())
		return difference == ""
	})
}

func (n *network) assertHistory(t *testing.T, people fleetv1connect.FleetServiceClient, name string) {
	t.Helper()
	res, err := people.ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: name})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, revision := range res.GetRevisions() {
		got = append(got, revision.GetDigests()[0])
		if want := int64(len(n.contents[name]) - i); revision.GetNumber() != want {
			t.Errorf("service %s: got number %d, want %d", name, revision.GetNumber(), want)
		}
		if (revision.GetSupersededAt() == nil) != (i == 0) {
			t.Errorf("service %s: got %v, want all but the latest superseded", name, revision)
		}
	}
	want := slices.Clone(n.contents[name])
	slices.Reverse(want)
	if diff := cmp.Diff(want[:min(len(want), 20)], got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("history of %s differs (-want +got):\n%s", name, diff)
	}
}
