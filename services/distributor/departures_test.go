// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"slices"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/postgrestest"
	"github.com/leatdev/leat/services/distributor"
)

// fact is a version that agents report.
type fact struct {
	// isOld is a condition that holds for versions before 1.33.
	isOld string
	// isLate is true if an agent that has just started does not know it yet.
	isLate bool
	report func(version string) *distributorv1.ClusterReport
}

func kubernetesVersion() fact {
	return fact{isOld: "self.kubernetes.minor < 33", isLate: true, report: func(version string) *distributorv1.ClusterReport {
		return &distributorv1.ClusterReport{KubernetesVersion: version}
	}}
}

func agentVersion() fact {
	return fact{isOld: `self.agent.version < "v1.33"`, report: func(version string) *distributorv1.ClusterReport {
		return &distributorv1.ClusterReport{AgentVersion: version}
	}}
}

// olderGlobal is a global service for clusters with an older version.
func (f fact) olderGlobal(removal *fleetv1.RemovalPolicy) *fleetv1.GlobalService {
	global := webGlobal()
	global.Spec.Clusters.When = f.isOld
	global.Spec.Removal = removal
	return global
}

// reporters are the agents of some clusters, which report a fact.
type reporters struct {
	fact   fact
	agents map[string]*agentKey
	last   map[string]uint64
}

func newReporters(t *testing.T, h *hub, f fact, clusters ...string) *reporters {
	t.Helper()
	r := &reporters{fact: f, agents: map[string]*agentKey{}, last: map[string]uint64{}}
	for _, cluster := range clusters {
		r.agents[cluster] = h.enrol(t, cluster)
	}
	return r
}

func (r *reporters) report(t *testing.T, h *hub, cluster, version string) {
	t.Helper()
	r.last[cluster]++
	_, err := h.agents(t, r.agents[cluster].token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
		Instance: "i", Sequence: r.last[cluster], Full: r.last[cluster] == 1, Cluster: r.fact.report(version),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (h *hub) global(t *testing.T, name string) *fleetv1.GlobalService {
	t.Helper()
	res, err := fleetcalls.Get[*fleetv1.GlobalService](t.Context(), h.fleet(t, adminToken), name)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// heldOf returns the clusters that have a global service, and the held ones among these.
func (h *hub) heldOf(t *testing.T, name string) (members, held string) {
	t.Helper()
	var all, kept []string
	for cluster, member := range h.members(t, name) {
		all = append(all, cluster)
		if member.GetHeld() {
			kept = append(kept, cluster)
		}
	}
	slices.Sort(all)
	slices.Sort(kept)
	return strings.Join(all, " "), strings.Join(kept, " ")
}

func (h *hub) waitHeld(t *testing.T, members, held string) {
	t.Helper()
	await.True(t, "members "+members+", held "+held, func() bool {
		gotMembers, gotHeld := h.heldOf(t, "web")
		return gotMembers == members && gotHeld == held
	})
}

// TestReportsRemoveWithinTheGuard upgrades Kubernetes, or the agents, in four clusters.
func TestReportsRemoveWithinTheGuard(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fact{"kubernetes": kubernetesVersion(), "agent": agentVersion()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removeWithinTheGuard(t, f)
		})
	}
}

// removeWithinTheGuard upgrades four clusters, for which a global service has a condition. One cluster loses
// the service, and the others keep it until a person agrees, on both replicas and after a restart.
func removeWithinTheGuard(t *testing.T, f fact) {
	t.Helper()
	url := postgrestest.New(t).Database(t)
	onPostgres := func(c *distributor.Config) { c.DatabaseURL = url }
	h := startHub(t, onPostgres)
	other := startReplica(t, h.git, onPostgres)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	names := []string{"a", "b", "c", "d"}
	h.apply(t, repositoryDocument("demo"))
	for _, name := range names {
		h.apply(t, labelledCluster(name, edge("eu")))
	}
	agents := newReporters(t, h, f, names...)
	h.apply(t, fleetdoc.Of(f.olderGlobal(nil)))
	for i, name := range names {
		agents.report(t, []*hub{h, other}[i%2], name, "v1.32.4")
	}
	h.waitHeld(t, "a b c d", "")
	other.waitHeld(t, "a b c d", "")
	if f.isLate {
		agents.report(t, h, "a", "")
		if members, held := h.heldOf(t, "web"); members != "a b c d" || held != "" {
			t.Errorf("got members %q, held %q, after a report without a version", members, held)
		}
	}
	for i, name := range names {
		agents.report(t, []*hub{h, other}[i%2], name, "v1.33.0")
	}
	for _, replica := range []*hub{h, other} {
		replica.waitHeld(t, "b c d", "b c d")
		if entry := entryOf(planOf(t, replica, agents.agents["c"], ""), "web"); entry == nil || entry.GetApply().GetNamespace() != "web-eu" {
			t.Errorf("got %v in the plan of a cluster that is held, want the service as it was", entry)
		}
		got := replica.global(t, "web").GetStatus()
		if got.GetHeld() != 3 || got.GetHeldDigest() == "" || got.GetFailing() != 0 || got.GetProblem().GetReason() != errorsv1.Reason_REASON_REMOVAL_HELD ||
			!strings.Contains(got.GetProblem().GetMessage(), got.GetHeldDigest()) || !strings.Contains(got.GetProblem().GetMessage(), "b, c, d") {
			t.Errorf("got %v, want the question with its answer", got)
		}
	}
	if got := h.members(t, "web")["b"]; got.GetMatched() != "labels+held" || got.GetProblem().GetReason() != errorsv1.Reason_REASON_REMOVAL_HELD {
		t.Errorf("got %v, want a member that is held", got)
	}
	if got := h.problemOf(t, "GlobalService"); got.GetSeverity() != fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED || got.GetReason() != errorsv1.Reason_REASON_REMOVAL_HELD {
		t.Errorf("got %v in the status of the fleet, want what waits for a person", got)
	}
	h.stop(t)
	h.start(t)
	h.waitHeld(t, "b c d", "b c d")

	// Edits of a held cluster still work, and one whose agent reports as before is held no longer.
	h.apply(t, labelledCluster("b", map[string]string{"tier": "edge", "region": "eu", "more": "yes"}))
	stale := h.global(t, "web").GetStatus().GetHeldDigest()
	for _, agent := range agents.agents {
		agent.renew(t, h)
	}
	agents.report(t, h, "d", "v1.32.5")
	h.waitHeld(t, "b c d", "b c")
	agents.report(t, h, "d", "v1.33.1")
	h.waitHeld(t, "b c d", "b c d")

	// The digest of another question answers nothing.
	h.apply(t, fleetdoc.Of(f.olderGlobal(&fleetv1.RemovalPolicy{Confirmation: stale})))
	h.waitHeld(t, "b c d", "b c d")
	h.apply(t, fleetdoc.Of(f.olderGlobal(&fleetv1.RemovalPolicy{Confirmation: h.global(t, "web").GetStatus().GetHeldDigest()})))
	h.waitHeld(t, "", "")
	other.waitHeld(t, "", "")
	if got := h.global(t, "web").GetStatus(); got.GetHeld() != 0 || got.GetHeldDigest() != "" || got.GetProblem() != nil {
		t.Errorf("got %v after the answer, want no question", got)
	}
}

// TestReportsRemoveWhatIsAllowed has a bound that lets two of four clusters go, and raises it.
func TestReportsRemoveWhatIsAllowed(t *testing.T) {
	t.Parallel()
	h, f := startHub(t), kubernetesVersion()
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	names := []string{"a", "b", "c", "d"}
	h.apply(t, repositoryDocument("demo"))
	for _, name := range names {
		h.apply(t, labelledCluster(name, edge("eu")))
	}
	agents := newReporters(t, h, f, names...)
	h.apply(t, fleetdoc.Of(f.olderGlobal(&fleetv1.RemovalPolicy{MaxPercent: new(int32(50))})))
	for _, name := range names {
		agents.report(t, h, name, "v1.32.4")
	}
	h.waitHeld(t, "a b c d", "")
	agents.report(t, h, "b", "v1.33.0")
	h.waitHeld(t, "a c d", "")
	agents.report(t, h, "a", "v1.33.0")
	h.waitHeld(t, "c d", "")
	agents.report(t, h, "d", "v1.33.0")
	h.waitHeld(t, "c d", "d")

	// Another agent joins the cluster, which changes nothing before it reports.
	agents.agents["c"], agents.last["c"] = h.enrol(t, "c"), 0
	h.waitHeld(t, "c d", "d")

	// One that comes back makes room for another that leaves later.
	agents.report(t, h, "a", "v1.32.9")
	h.waitHeld(t, "a c d", "d")
	h.apply(t, fleetdoc.Of(f.olderGlobal(&fleetv1.RemovalPolicy{MaxPercent: new(int32(100))})))
	h.waitHeld(t, "a c", "")
}
