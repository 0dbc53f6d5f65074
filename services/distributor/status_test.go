// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/internal/testkit/await"
)

// problemOf returns the worst problem of a kind in the status of the fleet, or nil.
func (h *hub) problemOf(t *testing.T, kind string) *fleetv1.ProblemGroup {
	t.Helper()
	res, err := h.queries(t, adminToken).GetFleetStatus(t.Context(), &fleetv1.GetFleetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range res.GetProblems() {
		if group.GetKind() == kind {
			return group
		}
	}
	return nil
}

// wantProblem waits for a problem of a kind with that severity, whose message contains a text, and for a filter
// that finds it.
func (h *hub) wantProblem(t *testing.T, kind string, severity fleetv1.ProblemSeverity, message string) {
	t.Helper()
	await.True(t, "a problem of a "+kind+" with "+message, func() bool {
		got := h.problemOf(t, kind)
		return got.GetSeverity() == severity && strings.Contains(got.GetMessage(), message)
	})
	if kind == "Service" {
		return // its status may show more than its problem, such as a pin
	}
	group := h.problemOf(t, kind)
	var terms []string
	if message != "" {
		terms = append(terms, fmt.Sprintf("message~%q", message))
	}
	if group.GetReason() != errorsv1.Reason_REASON_UNSPECIFIED {
		terms = append(terms, "reason="+strings.TrimPrefix(group.GetReason().String(), "REASON_"))
	}
	if group.GetFirstSince() != nil {
		terms = append(terms, "since<1h")
	}
	find := func(filter string) string {
		return selects(t, h.queries(t, adminToken), &fleetv1.FleetQuery{Kind: kind, Filter: filter})
	}
	for _, term := range terms {
		if got := find(term); !slices.Contains(strings.Fields(got), group.GetExamples()[0]) {
			t.Errorf("the filter %s selects %q, want %s with it", term, got, group.GetExamples()[0])
		}
	}
	if got := find(`message~"of no problem"`); got != "" {
		t.Errorf("a message that nothing has selects %q", got)
	}
}

// TestEventsOfWhatServicesFollowFrom sends what waits for a person at a global service, and that it goes on.
func TestEventsOfWhatServicesFollowFrom(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, webhookNotifier("", "ops", r.URL+"/hook", func(s *fleetv1.NotifierSpec) {
		s.Events, s.GroupWindow = []string{"globalservice.waiting", "globalservice.recovered"}, durationpb.New(time.Second)
	}))
	h.apply(t, repositoryDocument("demo"), labelledCluster("a", edge("eu")), labelledCluster("b", edge("eu")))
	agents := newReporters(t, h, kubernetesVersion(), "a", "b")
	h.apply(t, fleetdoc.Of(kubernetesVersion().olderGlobal(nil)))
	for _, version := range []string{"v1.32.4", "v1.33.0"} {
		agents.report(t, h, "a", version)
		agents.report(t, h, "b", version)
	}
	h.waitHeld(t, "b", "b")
	await.True(t, "the question", func() bool { return len(r.all()) == 1 })
	if e := r.all()[0].event; e.Type != "dev.leat.globalservice.waiting" || e.Subject != "web" || e.Data.Events[0].Reason != "REMOVAL_HELD" {
		t.Errorf("got %s", r.all()[0].body)
	}
	h.apply(t, fleetdoc.Of(kubernetesVersion().olderGlobal(&fleetv1.RemovalPolicy{Confirmation: h.global(t, "web").GetStatus().GetHeldDigest()})))
	await.True(t, "the answer", func() bool { return len(r.all()) == 2 })
	if e := r.all()[1].event; e.Type != "dev.leat.globalservice.recovered" {
		t.Errorf("got %s", r.all()[1].body)
	}
}
