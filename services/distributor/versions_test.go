// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

// TestVersionsReachAgentsAndPeople follows a version from gitcache to the plan, and from the agent's
// report to people, through a restart. A version of the same content changes no plan.
func TestVersionsReachAgentsAndPeople(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	content.snapshot.Version = "v1.4.1"
	h.demo(t, content)
	agent := h.enrol(t, "one")
	planned := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	entry := entryOf(planned, "app")
	if got := entry.GetBundles()[0]; got.GetVersion() != "v1.4.1" || got.GetCommit() != "c1" {
		t.Errorf("got %v, want the version in the plan", got)
	}
	report := func(sequence uint64, versions ...string) error {
		_, err := h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			Instance: "i", Sequence: sequence, Full: true, Services: []*distributorv1.ServiceReport{{
				Service: "app", ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY,
				ObservedSpecDigest: entry.GetSpecDigest(), AppliedDigests: []string{content.snapshot.GetDigest()},
				AppliedCommits: []string{"c1"}, AppliedVersions: versions,
			}},
		})
		return err
	}
	if err := report(1, "v1.4.1"); err != nil {
		t.Fatal(err)
	}
	hasVersion := func(of string) func(*fleetv1.Service) bool {
		return func(s *fleetv1.Service) bool {
			applied, sources := s.GetStatus().GetReport().GetAppliedVersions(), s.GetStatus().GetSources()
			return len(applied) == 1 && applied[0] == "v1.4.1" && len(sources) == 1 && sources[0].GetSnapshot().GetVersion() == of
		}
	}
	h.waitService(t, "app", hasVersion("v1.4.1"))
	history, err := h.fleet(t, adminToken).ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "app"})
	if err != nil || len(history.GetRevisions()) != 1 {
		t.Fatalf("got %v, %v, want one revision", history, err)
	}
	if diff := cmp.Diff([]string{"v1.4.1"}, history.GetRevisions()[0].GetVersions()); diff != "" {
		t.Errorf("versions of the revision (-want +got):\n%s", diff)
	}

	again := *content
	again.snapshot = &typev1.Snapshot{Commit: "c2", Version: "v1.4.2", Digest: content.snapshot.GetDigest()}
	h.git.set("demo", "app", &again)
	h.git.announce("demo", "", "refs/heads/main")
	h.waitService(t, "app", hasVersion("v1.4.2"))
	h.stop(t)
	h.start(t)
	h.waitService(t, "app", hasVersion("v1.4.2"))
	moved := h.plan(t, agent)
	if got := entryOf(moved, "app").GetBundles()[0]; moved.GetVersion() != planned.GetVersion() || got.GetVersion() != "v1.4.2" || got.GetCommit() != "c2" {
		t.Errorf("got %v at version %s, want the latest version of the same content in the plan %s", got, moved.GetVersion(), planned.GetVersion())
	}
}

// TestSecReportedVersionsAreBounded has an agent report versions that no plan holds.
func TestSecReportedVersionsAreBounded(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	entry := entryOf(h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest()), "app")
	many := make([]string, 17)
	for sequence, versions := range [][]string{many, {strings.Repeat("x", 257), "v1"}} {
		_, err := h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			Instance: "i", Sequence: uint64(sequence) + 1, Full: true, Services: []*distributorv1.ServiceReport{{
				Service: "app", ServiceUid: entry.GetUid(), Phase: typev1.ServicePhase_SERVICE_PHASE_FAILED,
				ObservedDigests: []string{content.snapshot.GetDigest()}, ObservedVersions: versions, AppliedVersions: versions,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if len(versions) == 2 {
			want = []string{"", "v1"}
		}
		h.waitService(t, "app", func(s *fleetv1.Service) bool {
			report := s.GetStatus().GetReport()
			return report != nil && slices.Equal(report.GetObservedVersions(), want) && slices.Equal(report.GetAppliedVersions(), want)
		})
	}
}
