// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// save saves one report.
func save(t *testing.T, s subject, report catalog.AgentReport) catalog.Receipt {
	t.Helper()
	receipts, err := s.SaveReports(t.Context(), []catalog.AgentReport{report})
	if err != nil || len(receipts) != 1 {
		t.Fatalf("got %v, %v, want a receipt", receipts, err)
	}
	return receipts[0]
}

// phases returns the phase of each stored report by service.
func phases(t *testing.T, s subject) map[string]catalog.Phase {
	t.Helper()
	all := map[string]catalog.Phase{}
	for _, stored := range changes(t, s, 0).Reports {
		if stored.Report != nil {
			all[objectname.LocalPath(stored.Service)] = stored.Report.Phase
		}
	}
	return all
}

func said(uid string, phase catalog.Phase) catalog.StoredReport {
	return catalog.StoredReport{ServiceUID: uid, Report: &catalog.ServiceReport{Phase: phase}}
}

// uids returns the uids of the services by local name, and the uid of the only cluster.
func uids(t *testing.T, s subject) (cluster string, services map[string]string) {
	t.Helper()
	all := changes(t, s, 0)
	services = map[string]string{}
	for _, service := range all.Services {
		services[service.LocalName()] = service.UID
	}
	return all.Clusters[0].UID, services
}

func testReports(t *testing.T, s subject) {
	ctx := t.Context()
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	start := changes(t, s, 0)
	uid := start.Services[0].UID
	report := catalog.AgentReport{
		ClusterUID: start.Clusters[0].UID, Instance: "i", Sequence: 2, PlanVersion: "v", Full: true,
		Cluster: &catalog.ClusterReport{
			AgentVersion: "v1", KubernetesVersion: "v1.36.3", Nodes: 3, StartedAt: time.Unix(4, 0).UTC(), Capabilities: []string{"overview"},
			Lock: &catalog.ClusterLock{Local: true, Hub: true, AllowedAccounts: []string{"team-a/*"}},
			Overview: catalog.ClusterOverview{
				Nodes: &catalog.NodesOverview{
					Count: 3, Ready: 2, Cordoned: 1, Capacity: catalog.ResourceTotals{CPUMillis: 1500, MemoryBytes: 1 << 40, Pods: 330},
					Allocatable: catalog.ResourceTotals{CPUMillis: 1400}, KubeletVersions: map[string]int32{"v1.36.3": 2, "v1.36.2": 1},
				},
				Pods: &catalog.PodsOverview{Pending: 1, Running: 2, Succeeded: 3, Failed: 4, Unknown: 5},
				Warnings: &catalog.WarningsOverview{Count: 1, Latest: []catalog.ClusterWarning{{
					Reason: "FailedScheduling", Kind: "Pod", Namespace: "shop", Name: "web", Message: "no node\x00", Times: 2, LastSeenAt: time.Unix(5, 0).UTC(),
				}}},
			},
		},
		Services: []catalog.StoredReport{
			{Service: "app@one", ServiceUID: uid, Entry: "e", ObservedGeneration: 1, Report: &catalog.ServiceReport{
				Phase: catalog.PhaseFailed, Problem: &catalog.Problem{Reason: reason.ApplyRejected, Message: "no"}, AppliedDigests: []string{"a"},
				Objects: []catalog.ObjectStatus{{ObjectRef: catalog.ObjectRef{Kind: "Pod"}, Health: "DEGRADED"}}, AppliedAt: time.Unix(1, 0).UTC(),
				Timings: catalog.Timings{ArrivedAt: time.Unix(2, 0).UTC(), Download: time.Second},
				Guarded: []catalog.ObjectRef{{Kind: "Secret", Name: "key"}}, GuardedDigest: "sha256:1",
				Drift:  []catalog.ObjectDrift{{ObjectRef: catalog.ObjectRef{Kind: "Service", Name: "web"}, Fields: []catalog.FieldDrift{{Path: "spec.type", Old: "a", New: "b", Manager: "m"}}}},
				Tests:  []catalog.TestResult{{ObjectRef: catalog.ObjectRef{Kind: "Job", Name: "smoke"}, Message: "no", LogTail: "end", EndedAt: time.Unix(3, 0).UTC()}},
				DryRun: &catalog.DryRun{Created: 1, Changes: []catalog.DryRunChange{{ObjectRef: catalog.ObjectRef{Kind: "Job", Name: "new"}, Action: "CREATE"}}},
			}},
			{Service: "gone", ServiceUID: "no such uid", Report: &catalog.ServiceReport{}},
		},
	}
	save(t, s, report)
	got := changes(t, s, start.Revision)
	if diff := cmp.Diff(report.Services[:1], got.Reports); diff != "" {
		t.Errorf("reports differ (-want +got):\n%s", diff)
	}
	agent := got.Clusters[0].Agent
	if diff := cmp.Diff(*report.Cluster, agent.Report); diff != "" || agent.PlanVersion != "v" || agent.Instance != "i" || agent.Sequence != 2 {
		t.Errorf("got %+v, want what was reported (-want +got):\n%s", agent, diff)
	}
	if len(got.Services) != 0 {
		t.Error("a report changed a service")
	}
	report.Sequence, report.Services[0].ObservedGeneration = 3, 0
	save(t, s, report)
	if again := changes(t, s, got.Revision); len(again.Reports) != 0 || len(again.Clusters) != 0 {
		t.Errorf("got %+v, want no change from a report that says the same again", again)
	}
	other := report
	other.ClusterUID, other.Instance = "no such cluster", "j"
	if receipt := save(t, s, other); receipt != (catalog.Receipt{}) {
		t.Errorf("got %+v, want nothing of a cluster that is gone", receipt)
	}
	if _, err := catalog.NewEditor(s).Delete(ctx, catalog.Key{Kind: catalog.KindService, Name: "app@one"}); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s, 0); len(got.Reports) != 0 {
		t.Errorf("got %v, want no report of a deleted service", got.Reports)
	}
}

func testReportOrder(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	clusterUID, services := uids(t, s)
	none, first := "", "i"
	for n, step := range []struct {
		instance string
		sequence uint64
		full     bool
		replaces *string
		phase    catalog.Phase
		receipt  catalog.Receipt
		want     catalog.Phase
	}{
		{"i", 1, false, nil, catalog.PhaseSyncing, catalog.Receipt{WantFull: true}, ""},
		{"i", 2, true, &none, catalog.PhaseSyncing, catalog.Receipt{}, catalog.PhaseSyncing},
		{"i", 4, false, nil, catalog.PhaseSyncing, catalog.Receipt{}, catalog.PhaseSyncing},                                 // nothing new, and still
		{"i", 3, false, nil, catalog.PhaseFailed, catalog.Receipt{}, catalog.PhaseSyncing},                                  // is newer than this one
		{"i", 4, false, nil, catalog.PhaseFailed, catalog.Receipt{}, catalog.PhaseSyncing},                                  // twice
		{"j", 1, false, nil, catalog.PhaseFailed, catalog.Receipt{WantFull: true, Current: "i"}, catalog.PhaseSyncing},      // a new process
		{"j", 2, true, &first, catalog.PhaseHealthy, catalog.Receipt{}, catalog.PhaseHealthy},                               //
		{"i", 5, false, nil, catalog.PhaseFailed, catalog.Receipt{WantFull: true, Current: "j"}, catalog.PhaseHealthy},      // the ended one
		{"i", 6, true, &none, catalog.PhaseFailed, catalog.Receipt{WantFull: true, Current: "j"}, catalog.PhaseHealthy},     //
		{"late", 1, true, &first, catalog.PhaseFailed, catalog.Receipt{WantFull: true, Current: "j"}, catalog.PhaseHealthy}, // never heard of before
		{"old agent", 1, true, nil, catalog.PhaseDegraded, catalog.Receipt{}, catalog.PhaseDegraded},                        // cannot tell
	} {
		receipt := save(t, s, catalog.AgentReport{
			ClusterUID: clusterUID, Instance: step.instance, Sequence: step.sequence, Full: step.full, Replaces: step.replaces,
			Services: []catalog.StoredReport{said(services["app"], step.phase)},
		})
		if got := phases(t, s)["app"]; receipt != step.receipt || got != step.want {
			t.Errorf("step %d: got %+v and phase %q, want %+v and %q", n, receipt, got, step.receipt, step.want)
		}
	}
}

// testOverview has a cluster's overview arrive in parts, twice, out of order, within one batch and
// from several processes: the stored state is the latest process' last report of each part, and
// nothing else.
func testOverview(t *testing.T, s subject) {
	apply(t, s, cluster("one"))
	uid := changes(t, s, 0).Clusters[0].UID
	nodes := func(n int32) *catalog.ClusterReport {
		return &catalog.ClusterReport{Nodes: n, Overview: catalog.ClusterOverview{Nodes: &catalog.NodesOverview{Count: n}}}
	}
	pods := func(n int32) *catalog.ClusterReport {
		return &catalog.ClusterReport{Nodes: n, Overview: catalog.ClusterOverview{Pods: &catalog.PodsOverview{Running: n}}}
	}
	warnings := func(n int32) *catalog.ClusterReport {
		return &catalog.ClusterReport{Nodes: n, Overview: catalog.ClusterOverview{Warnings: &catalog.WarningsOverview{Count: n}}}
	}
	report := func(instance string, sequence uint64, full bool, said *catalog.ClusterReport) catalog.AgentReport {
		return catalog.AgentReport{ClusterUID: uid, Instance: instance, Sequence: sequence, Full: full, Cluster: said}
	}
	text := func() string {
		r := changes(t, s, 0).Clusters[0].Agent.Report
		var parts []string
		if n := r.Overview.Nodes; n != nil {
			parts = append(parts, fmt.Sprint("nodes ", n.Count))
		}
		if p := r.Overview.Pods; p != nil {
			parts = append(parts, fmt.Sprint("pods ", p.Running))
		}
		if w := r.Overview.Warnings; w != nil {
			parts = append(parts, fmt.Sprint("warnings ", w.Count))
		}
		return fmt.Sprint(r.Nodes, " ", strings.Join(parts, ", "))
	}
	for n, step := range []struct {
		want  string
		batch []catalog.AgentReport
	}{
		{"1 nodes 1", []catalog.AgentReport{report("i", 1, true, nodes(1))}},
		{"2 nodes 1, pods 2", []catalog.AgentReport{report("i", 2, false, pods(2))}},
		{"2 nodes 1, pods 2", []catalog.AgentReport{report("i", 2, false, pods(9)), report("i", 1, true, nodes(9))}}, // twice, with other words
		{"5 nodes 4, pods 2, warnings 5", []catalog.AgentReport{report("i", 4, false, nodes(4)), report("i", 3, false, pods(3)), report("i", 5, false, warnings(5))}},
		{"6 nodes 4, pods 2, warnings 5", []catalog.AgentReport{report("i", 6, false, &catalog.ClusterReport{Nodes: 6})}},
		{"6 nodes 4, pods 2, warnings 5", []catalog.AgentReport{report("i", 7, true, nil)}},      // a service went
		{"6 nodes 4, pods 2, warnings 5", []catalog.AgentReport{report("j", 1, false, pods(9))}}, // must be full first
		{"2 pods 2", []catalog.AgentReport{report("j", 2, true, pods(2))}},
		{"2 pods 2", []catalog.AgentReport{report("i", 8, false, nodes(9))}}, // ended
		{"4 nodes 4, pods 2", []catalog.AgentReport{report("j", 3, false, nodes(4))}},
		{"5 warnings 5", []catalog.AgentReport{report("j", 4, true, warnings(5))}}, // was denied the rest
		{"1 ", []catalog.AgentReport{report("k", 1, true, &catalog.ClusterReport{Nodes: 1})}},
	} {
		if _, err := s.SaveReports(t.Context(), step.batch); err != nil {
			t.Fatal(err)
		}
		if got := text(); got != step.want {
			t.Errorf("step %d: got %q, want %q", n, got, step.want)
		}
	}
	one := changes(t, s, 0).Clusters[0]
	if one.Generation != 1 || one.ResourceVersion != 1 {
		t.Errorf("got %+v, want a cluster that nobody edited", one.Metadata)
	}
}

// testFullReports has reports of two clusters in one batch, where the later contain more and less
// than the earlier.
func testFullReports(t *testing.T, s subject) {
	apply(t, s, cluster("one"), cluster("two"), repository("demo"),
		service("a", "one", "demo"), service("b", "one", "demo"), service("c", "two", "demo"), service("d", "two", "demo"))
	clusters := map[string]string{}
	for _, c := range changes(t, s, 0).Clusters {
		clusters[c.Name] = c.UID
	}
	_, services := uids(t, s)
	receipts, err := s.SaveReports(t.Context(), []catalog.AgentReport{
		{ClusterUID: clusters["one"], Instance: "i", Sequence: 1, Full: true, Services: []catalog.StoredReport{
			said(services["a"], catalog.PhaseSyncing), said(services["b"], catalog.PhaseSyncing), said(services["c"], catalog.PhaseFailed),
		}},
		{ClusterUID: clusters["two"], Instance: "k", Sequence: 1, Services: []catalog.StoredReport{said(services["c"], catalog.PhaseFailed)}},
		{ClusterUID: clusters["two"], Instance: "k", Sequence: 2, Full: true, Services: []catalog.StoredReport{
			said(services["c"], catalog.PhaseSyncing), said(services["c"], catalog.PhaseHealthy), said(services["d"], catalog.PhasePaused),
		}},
		{ClusterUID: clusters["one"], Instance: "i", Sequence: 2, Services: []catalog.StoredReport{said(services["a"], catalog.PhaseHealthy)}},
		{ClusterUID: clusters["one"], Instance: "i", Sequence: 3, Full: true, Services: []catalog.StoredReport{said(services["a"], catalog.PhaseDegraded)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]catalog.Receipt{{}, {WantFull: true}, {}, {}, {}}, receipts); diff != "" {
		t.Errorf("receipts differ (-want +got):\n%s", diff)
	}
	want := map[string]catalog.Phase{"a": catalog.PhaseDegraded, "c": catalog.PhaseHealthy, "d": catalog.PhasePaused}
	if diff := cmp.Diff(want, phases(t, s)); diff != "" {
		t.Errorf("phases differ (-want +got):\n%s", diff)
	}
}

// testBadReport has a report that cannot be stored leave nothing behind, nor anything of its batch.
func testBadReport(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	clusterUID, services := uids(t, s)
	good := catalog.AgentReport{
		ClusterUID: clusterUID, Instance: "i", Sequence: 1, Full: true, Services: []catalog.StoredReport{said(services["app"], catalog.PhaseHealthy)},
	}
	bad := good
	bad.Sequence, bad.Services = 2, []catalog.StoredReport{said(services["app"], catalog.PhaseFailed)}
	bad.Services[0].Report.AppliedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year
	if receipts, err := s.SaveReports(t.Context(), []catalog.AgentReport{good, bad}); err == nil {
		t.Fatalf("got %v, want an error", receipts)
	}
	if got := changes(t, s, 0); len(got.Reports) != 0 || got.Clusters[0].Agent.Instance != "" {
		t.Errorf("got %+v, want nothing stored", got)
	}
	save(t, s, good)
	if got := phases(t, s)["app"]; got != catalog.PhaseHealthy {
		t.Errorf("got phase %q, want the good report's", got)
	}
}

// reportOn returns a report about content.
func reportOn(uid, content string, phase catalog.Phase) catalog.StoredReport {
	report := &catalog.ServiceReport{
		Phase: phase, ObservedSpecDigest: "spec", PhaseSince: time.Unix(20, 0).UTC(), PlannedAt: time.Unix(10, 0).UTC(),
	}
	switch phase {
	case catalog.PhaseSyncing, catalog.PhaseFailed:
		report.ObservedDigests, report.ObservedCommits = []string{content}, []string{"commit of " + content}
	default:
		report.AppliedDigests, report.AppliedCommits, report.AppliedAt = []string{content}, []string{"commit of " + content}, time.Unix(15, 0).UTC()
	}
	return catalog.StoredReport{ServiceUID: uid, Report: report}
}

// outcomes lists a service's history, the latest first.
func outcomes(t *testing.T, s subject, uid string) (all []string) {
	t.Helper()
	revisions, err := s.Revisions(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range revisions {
		all = append(all, fmt.Sprintf("%d %s %s", r.Number, r.Digests[0], r.Outcome))
	}
	return all
}

func testHistory(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"))
	clusterUID, services := uids(t, s)
	uid, sequence := services["app"], uint64(0)
	for _, batch := range [][]catalog.StoredReport{
		{reportOn(uid, "a", catalog.PhaseSyncing), reportOn(uid, "a", catalog.PhaseHealthy)},
		{reportOn(uid, "b", catalog.PhaseSyncing)},
		{reportOn(uid, "c", catalog.PhaseSyncing), reportOn(uid, "c", catalog.PhaseFailed)},
		{reportOn(uid, "a", catalog.PhaseProgressing)},
	} {
		var reports []catalog.AgentReport
		for _, service := range batch {
			sequence++
			reports = append(reports, catalog.AgentReport{
				ClusterUID: clusterUID, Instance: "i", Sequence: sequence, Full: true, Services: []catalog.StoredReport{service}, ReceivedAt: time.Unix(30, 0).UTC(),
			})
		}
		if _, err := s.SaveReports(t.Context(), append(reports, reports...)); err != nil { // each of them twice
			t.Fatal(err)
		}
	}
	want := []string{"4 a ", "3 c FAILED", "2 b SUPERSEDED", "1 a HEALTHY"}
	if diff := cmp.Diff(want, outcomes(t, s, uid)); diff != "" {
		t.Errorf("history differs (-want +got):\n%s", diff)
	}
	revisions, err := s.Revisions(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	first := catalog.Revision{
		Number: 1, Content: catalog.Content{SpecDigest: "spec", Digests: []string{"a"}, Commits: []string{"commit of a"}}, Outcome: catalog.RevisionHealthy,
		PlannedAt: time.Unix(10, 0).UTC(), AppliedAt: time.Unix(15, 0).UTC(), HealthyAt: time.Unix(20, 0).UTC(), SupersededAt: time.Unix(30, 0).UTC(),
	}
	if diff := cmp.Diff(first, revisions[3]); diff != "" {
		t.Errorf("first revision differs (-want +got):\n%s", diff)
	}
}

// testHistoryEnds has a history keep the latest revisions only, and end with its service.
func testHistoryEnds(t *testing.T, s subject) {
	apply(t, s, cluster("one"), repository("demo"), service("app", "one", "demo"), service("other", "one", "demo"))
	clusterUID, services := uids(t, s)
	uid := services["app"]
	report := func(n int, service catalog.StoredReport) {
		save(t, s, catalog.AgentReport{ClusterUID: clusterUID, Instance: "i", Sequence: uint64(n), Full: n == 1, Services: []catalog.StoredReport{service}})
	}
	report(1, reportOn(services["other"], "x", catalog.PhaseHealthy))
	for n := range catalog.MaxRevisions + 5 {
		report(n+2, reportOn(uid, fmt.Sprint(n+1), catalog.PhaseHealthy))
	}
	got := outcomes(t, s, uid)
	if len(got) != catalog.MaxRevisions || got[0] != "25 25 HEALTHY" || got[19] != "6 6 HEALTHY" {
		t.Errorf("got %v, want the latest %d", got, catalog.MaxRevisions)
	}
	if got := outcomes(t, s, services["other"]); len(got) != 1 {
		t.Errorf("got %v, want the other service's history untouched", got)
	}
	if _, err := catalog.NewEditor(s).Delete(t.Context(), catalog.Key{Kind: catalog.KindService, Name: "app@one"}); err != nil {
		t.Fatal(err)
	}
	apply(t, s, service("app", "one", "demo"))
	_, again := uids(t, s)
	if again["app"] == uid || len(outcomes(t, s, uid)) != 0 || len(outcomes(t, s, again["app"])) != 0 {
		t.Errorf("got %v and %v, want no history of a service that was created again", outcomes(t, s, uid), outcomes(t, s, again["app"]))
	}
}

// testDerivedReports requires that a hub which starts finds what people asked of derived services, and reads
// their reports by cluster.
func testDerivedReports(t *testing.T, s subject) {
	apply(t, s, repository("demo"), cluster("one"), cluster("two"), &catalog.GlobalService{
		Metadata: catalog.Metadata{Name: "web"},
		Spec: catalog.GlobalServiceSpec{
			Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
			Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo"}}}},
		},
	})
	start := changes(t, s, 0)
	global, reports := start.Globals[0].UID, map[string]catalog.StoredReport{}
	for _, c := range start.Clusters {
		reports[c.UID] = catalog.StoredReport{
			Service: "web@" + c.Name, ServiceUID: catalog.DerivedUID(global, c.UID), Entry: "entry of " + c.Name, ObservedGeneration: 1,
			Report: &catalog.ServiceReport{Phase: catalog.PhaseHealthy, AppliedAt: time.Unix(1, 0).UTC()},
		}
		save(t, s, catalog.AgentReport{ClusterUID: c.UID, Instance: "i", Sequence: 1, Full: true, Services: []catalog.StoredReport{reports[c.UID]}})
	}
	if got := changes(t, s, start.Revision); len(got.Reports) != 2 {
		t.Errorf("got %v, want the reports as changes", got.Reports)
	}
	one := start.Clusters[0]
	err := s.Edit(t.Context(), func(ctx context.Context, tx catalog.Tx) error {
		derived := &catalog.Service{
			Metadata: catalog.Metadata{Name: "web@" + one.Name, UID: catalog.DerivedUID(global, one.UID)}, Spec: catalog.ServiceSpec{Cluster: one.Name},
			Derived: &catalog.Derivation{GlobalUID: global},
		}
		_, err := tx.Except(ctx, derived, []string{catalog.VerbPause}, func(e *catalog.Exception) { e.Paused = true })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := changes(t, s, 0)
	if len(got.Reports) != 0 || len(got.Requests) != 1 || got.Requests[0].Service != "web@"+one.Name {
		t.Errorf("got %v and %v, want the exception alone", got.Reports, got.Requests)
	}
	for name, uids := range map[string][]string{
		"one": {one.UID}, "both": {one.UID, start.Clusters[1].UID}, "one that is gone": {"no such cluster"}, "none": nil,
	} {
		var want []catalog.StoredReport
		for _, uid := range uids {
			if report, ok := reports[uid]; ok {
				want = append(want, report)
			}
		}
		found, err := s.DerivedReports(t.Context(), uids)
		if err != nil {
			t.Fatal(err)
		}
		byService := func(a, b catalog.StoredReport) int { return strings.Compare(a.Service, b.Service) }
		slices.SortFunc(found, byService)
		slices.SortFunc(want, byService)
		if diff := cmp.Diff(want, found, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// testDamagedReports requires that a report that cannot be read costs no other one, and not the start of a hub, and
// that the next report of the agent replaces it.
func testDamagedReports(t *testing.T, s subject) {
	apply(t, s, repository("demo"), cluster("one"), service("app", "one", "demo"), &catalog.GlobalService{
		Metadata: catalog.Metadata{Name: "web"},
		Spec: catalog.GlobalServiceSpec{
			Clusters: catalog.ClusterTarget{ClusterSelection: catalog.ClusterSelection{All: true}},
			Template: catalog.ServiceTemplate{Spec: catalog.ServiceSpec{Sources: []catalog.Source{{Repository: "demo"}}}},
		},
	})
	start := changes(t, s, 0)
	one := start.Clusters[0].UID
	uids := []string{start.Services[0].UID, catalog.DerivedUID(start.Globals[0].UID, one)}
	report := func(sequence uint64) {
		t.Helper()
		said := catalog.AgentReport{ClusterUID: one, Instance: "i", Sequence: sequence, Full: true}
		for _, uid := range uids {
			said.Services = append(said.Services, catalog.StoredReport{ServiceUID: uid, Report: &catalog.ServiceReport{Phase: catalog.PhaseHealthy}})
		}
		save(t, s, said)
	}
	read := func() map[string]catalog.StoredReport {
		t.Helper()
		derived, err := s.DerivedReports(t.Context(), []string{one})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]catalog.StoredReport{}
		for _, r := range append(changes(t, s, 0).Reports, derived...) {
			found[r.ServiceUID] = r
		}
		return found
	}
	report(1)
	if err := sqlstore.DamageReports(t.Context(), s.Store); err != nil {
		t.Fatal(err)
	}
	for _, uid := range uids {
		if got := read()[uid]; got.Damage == nil || got.Report != nil || got.Service == "" {
			t.Errorf("got %+v, want a service whose report is damaged", got)
		}
	}
	report(2)
	for _, uid := range uids {
		if got := read()[uid]; got.Damage != nil || got.Report == nil || got.Report.Phase != catalog.PhaseHealthy {
			t.Errorf("got %+v, want the next report", got)
		}
	}
}

// TestStartsFindRequestsByAnIndex requires that SQLite does not read each of millions of derived
// services to find the ones with requests of people. PostgreSQL plans by the table's content.
func TestStartsFindRequestsByAnIndex(t *testing.T) {
	t.Parallel()
	s := open(t, sqliteURL(t))
	steps, err := sqlstore.RequestedPlan(t.Context(), s)
	if err != nil || !strings.Contains(steps, "derived_services_requested") {
		t.Errorf("got %v and the steps\n%s\nwant the index", err, steps)
	}
}
