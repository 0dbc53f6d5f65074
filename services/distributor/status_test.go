// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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

// wantProblem waits for a problem of a kind with that severity, whose message contains a text.
func (h *hub) wantProblem(t *testing.T, kind string, severity fleetv1.ProblemSeverity, message string) {
	t.Helper()
	await.True(t, "a problem of a "+kind+" with "+message, func() bool {
		got := h.problemOf(t, kind)
		return got.GetSeverity() == severity && strings.Contains(got.GetMessage(), message)
	})
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
