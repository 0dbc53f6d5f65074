// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/vaultdouble"
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

// TestEventsOfWhatServicesFollowFrom sends that a global service waits for a person, and that it
// continues.
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

// wantEvent waits for the message of that number at a receiver, and checks what it is about.
func wantEvent(t *testing.T, r *receiver, number int, kind, subject, reason string) {
	t.Helper()
	await.True(t, "the event "+kind, func() bool { return len(r.all()) >= number })
	m := r.all()[number-1]
	if e := m.event; e.Type != "dev.leat."+kind || e.Subject != subject || e.Data.Events[0].Reason != reason {
		t.Errorf("got message %d %s, want %s of %s with %s", number, m.body, kind, subject, reason)
	}
}

// tellsOf subscribes a notifier to the events of a kind of objects.
func tellsOf(kind string) func(*fleetv1.NotifierSpec) {
	return func(s *fleetv1.NotifierSpec) {
		s.Events, s.GroupWindow = []string{kind + ".recovered"}, durationpb.New(time.Second)
		for _, event := range map[string][]string{
			"rollout": {"stopped"}, "fleetsource": {"failing", "waiting"}, "configbackend": {"failing"}, "notifier": {"failing"},
		}[kind] {
			s.Events = append(s.Events, kind+"."+event)
		}
	}
}

// TestEventsOfARolloutThatHalts has a commit fail in the canary, and a person end its rollout.
func TestEventsOfARolloutThatHalts(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	first, bad := newFolder(t, "c1", "first"), newFolder(t, "c2", "bad")
	h.demo(t, first)
	h.apply(t, clusterDocument("two"), serviceDocument("app", "two", "demo", "app"))
	agents := newCrew(t, h, "one", "two")
	agents.spoil(bad)
	await.True(t, "the first content everywhere", func() bool { return agents.has(first, "one", "two") })
	policy := wavesPolicy("waves")
	policy.Spec.OnHalt = "pause"
	h.apply(t, fleetdoc.Of(policy), webhookNotifier("", "ops", r.URL, tellsOf("rollout")))
	h.waitTakenOver(t, 2)
	moveTo(h, bad)
	wantEvent(t, r, 1, "rollout.stopped", "waves", "ROLLOUT_STOPPED")
	if state := latestRollout(t, h, "waves").GetState(); state != "halted" {
		t.Errorf("got the event of a rollout that is %s", state)
	}
	if _, err := h.rollouts(t, adminToken).ControlRollout(t.Context(), &fleetv1.ControlRolloutRequest{Name: "waves", Verb: "abort"}); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, r, 2, "rollout.recovered", "waves", "")
}

// TestEventsOfAFleetSourceThatHolds has a commit remove everything, and a person agree.
func TestEventsOfAFleetSourceThatHolds(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	h.commit(t, "fleet", "c1", map[string]string{"clusters.yaml": yamlCluster("berlin", "") + yamlCluster("paris", "")})
	h.apply(t, webhookNotifier("", "ops", r.URL, tellsOf("fleetsource")))
	h.apply(t, repositoryDocument("fleet"), fleetSourceDocument("", "fleet", "fleet", wholeHub))
	h.at(t, "fleet", "c1", errorsv1.Reason_REASON_UNSPECIFIED)
	h.commit(t, "fleet", "c2", map[string]string{"README.md": "nothing"})
	wantEvent(t, r, 1, "fleetsource.waiting", "fleet", "FLEET_SOURCE_HELD")
	status := h.at(t, "fleet", "c2", errorsv1.Reason_REASON_FLEET_SOURCE_HELD)
	if _, err := h.fleetSources(t, adminToken).ConfirmFleetSource(t.Context(), &fleetv1.ConfirmFleetSourceRequest{Name: "fleet", Digest: status.GetHeldDigest()}); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, r, 2, "fleetsource.recovered", "fleet", "")
}

// TestEventsOfABackendThatIsAway refers to a back end that no server answers for, and then to one that works.
func TestEventsOfABackendThatIsAway(t *testing.T) {
	t.Parallel()
	h, r, vault := startHub(t, local), newReceiver(t), vaultdouble.Start(t)
	h.git.set("demo", "app", newFolder(t, "c1", "one"))
	h.apply(t, webhookNotifier("", "ops", r.URL, tellsOf("configbackend"), func(s *fleetv1.NotifierSpec) { s.AllProjects = true }))
	h.apply(t, repositoryDocument("demo"), clusterDocument("one"), vaultDocument("http://127.0.0.1:1", "of-nobody"),
		referringDocument("app", map[string]string{"PASSWORD": "vault://shop/db#password"}))
	wantEvent(t, r, 1, "configbackend.failing", "vault", "CONFIG_STALE")
	vault.Put("secret", "shop/db", map[string]string{"password": "secret"})
	h.apply(t, vaultDocument(vault.URL, vault.Token(vaultToken)))
	wantEvent(t, r, 2, "configbackend.recovered", "vault", "")
}

// TestEventsOfDeadLetters has a receiver refuse a message. Another notifier is told, and told when the message was
// sent again; the one that failed is not.
func TestEventsOfDeadLetters(t *testing.T) {
	t.Parallel()
	h, r, gone := startHub(t, local), newReceiver(t), newReceiver(t)
	gone.answer(http.StatusGone)
	h.apply(t, webhookNotifier("", "ops", r.URL, tellsOf("notifier")), webhookNotifier("", "chat", gone.URL, func(s *fleetv1.NotifierSpec) {
		s.Events, s.GroupWindow = []string{"cluster.connected", "notifier.failing", "notifier.recovered"}, durationpb.New(time.Second)
	}))
	h.apply(t, clusterDocument("berlin"))
	connectOne(t, h, "berlin")
	wantEvent(t, r, 1, "notifier.failing", "chat", "")
	gone.answer(http.StatusOK)
	if _, err := h.notifiers(t, adminToken).ResendNotifier(t.Context(), &fleetv1.ResendNotifierRequest{Name: "chat"}); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, r, 2, "notifier.recovered", "chat", "")
	if got := gone.all(); len(got) != 1 || got[0].event.Type != "dev.leat.cluster.connected" {
		t.Errorf("got %d messages at the receiver that had refused one, want the one that was sent again", len(got))
	}
}
