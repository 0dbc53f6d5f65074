// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/distributor/internal/notify/notifysink"
)

// receiver is an endpoint that keeps what it is sent.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	code     int
	messages []received
}

// received is a message.
type received struct {
	header http.Header
	body   []byte
	event  struct {
		SpecVersion, ID, Source, Type, Subject string
		Time                                   time.Time
		Data                                   struct {
			Text   string
			Count  int
			Events []struct{ ID, Kind, Project, Service, Cluster, Repository, Reason string }
		}
	}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{code: http.StatusOK}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var m received
		var err error
		if m.body, err = io.ReadAll(req.Body); err == nil {
			err = json.Unmarshal(m.body, &m.event)
		}
		if err != nil {
			t.Error(err)
		}
		m.header = req.Header
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.code == http.StatusOK {
			r.messages = append(r.messages, m)
		}
		w.WriteHeader(r.code)
		_, _ = io.WriteString(w, "the answer")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}

const hmacKey = "the key of this test's messages"

func webhookNotifier(project, name, url string, change ...func(*fleetv1.NotifierSpec)) *fleetv1.Document {
	key := hmacKey
	spec := &fleetv1.NotifierSpec{Sink: &fleetv1.NotifierSpec_Webhook{Webhook: &fleetv1.WebhookSink{Url: &url, HmacKey: &key}}}
	for _, c := range change {
		c(spec)
	}
	return fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: name, Project: project}, Spec: spec})
}

func local(cfg *distributor.Config) { cfg.AllowLocalAgents = true }

// connectOne enrols an agent of a cluster, and connects it.
func connectOne(t *testing.T, h *hub, cluster string) {
	t.Helper()
	a := h.enrol(t, cluster)
	h.watchPlan(t, a.token, "")
}

// TestNotifierIsTold follows an event from an agent to a receiver: signed, once, as a CloudEvent.
func TestNotifierIsTold(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	h.apply(t, webhookNotifier("", "ops", r.URL+"/hook?token=abc"))
	h.apply(t, clusterDocument("berlin"))
	connectOne(t, h, "berlin")
	await.True(t, "a message", func() bool { return len(r.all()) > 0 })
	m := r.all()[0]
	if e := m.event; e.SpecVersion != "1.0" || e.Type != "dev.leat.cluster.connected" || e.Subject != "berlin" || e.ID == "" || e.Data.Count != 1 {
		t.Errorf("got %s", m.body)
	}
	seconds, _, _ := strings.Cut(strings.TrimPrefix(m.header.Get("Leat-Signature"), "t="), ",")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if want := notifysink.Sign([]byte(hmacKey), m.body, time.Unix(at, 0)); m.header.Get("Leat-Signature") != want {
		t.Errorf("got signature %s, want %s", m.header.Get("Leat-Signature"), want)
	}
	var shown *fleetv1.Notifier
	await.True(t, "the message to be counted", func() bool {
		got, err := fleetcalls.Get[*fleetv1.Notifier](t.Context(), h.fleet(t, adminToken), "ops")
		if err != nil {
			t.Fatal(err)
		}
		shown = got
		return shown.GetStatus().GetSent() == 1
	})
	if s := shown.GetStatus(); s.GetWaiting() != 0 || s.GetTarget() != r.URL || shown.GetSpec().GetWebhook() == nil {
		t.Errorf("got %v", shown)
	}
	for _, secret := range []string{"token=abc", "/hook", hmacKey} {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("the notifier shows %q", secret)
		}
	}
}

// TestNotifierIsToldOfRequests follows a request for access to the people who decide: a notifier that names the events is sent it
// and its end, and neither one that does not nor one of a project is.
func TestNotifierIsToldOfRequests(t *testing.T) {
	t.Parallel()
	h, r, others := startHub(t, local), newReceiver(t), newReceiver(t)
	events := func(s *fleetv1.NotifierSpec) {
		s.Events, s.GroupWindow = []string{"accessrequest.opened", "accessrequest.ended", "service.failed"}, durationpb.New(time.Second)
	}
	q := newQuestioned(t, h)
	q.apply(t, webhookNotifier("", "approvers", r.URL, events, func(s *fleetv1.NotifierSpec) { s.AllProjects = true }),
		webhookNotifier("", "all", others.URL, func(s *fleetv1.NotifierSpec) { s.AllProjects = true }), webhookNotifier("", "project", others.URL, events))
	name := q.ask(t, q.ada, operatorOf("one"))
	await.True(t, "a message about the request", func() bool { return len(r.all()) == 1 })
	if _, err := q.decide(t, q.one, name, ""); err != nil {
		t.Fatal(err)
	}
	await.True(t, "a message about its end", func() bool { return len(r.all()) == 2 })
	for i, want := range []string{
		"Leat: access request " + name + " waits for a decision: ada asks for operator in clusters one for 1h0m0s. To approve it, run leat access approve " +
			name + ". Reason: INC-42: web is down",
		"Leat: access request " + name + " has ended: APPROVED: ada asks for operator in clusters one for 1h0m0s: approved by user:one",
	} {
		if got := r.all()[i].event; got.Data.Text != want || got.Subject != name {
			t.Errorf("got %q about %q, want %q about %q", got.Data.Text, got.Subject, want, name)
		}
	}
	if got := others.all(); len(got) > 0 {
		t.Errorf("others were told: %s", got[0].body)
	}
}

// TestNotifierFollowsAService reports what became of a service: each change is told once, and the commit
// that the service is made of has a status, which the forge's last request sets.
func TestNotifierFollowsAService(t *testing.T) {
	t.Parallel()
	h, r, forge := startHub(t, local), newReceiver(t), newForge(t)
	commit := strings.Repeat("c1", 20)
	content := newFolder(t, commit, "one")
	repository := repositoryDocument("demo")
	repository.GetRepository().Spec.Url = "https://git.example/acme/demo.git"
	h.git.set("demo", "app", content)
	h.apply(t, repository,
		webhookNotifier("", "ops", r.URL, func(s *fleetv1.NotifierSpec) {
			s.Events, s.GroupWindow = []string{"service.failed", "service.recovered"}, durationpb.New(time.Second)
		}),
		fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: "statuses"}, Spec: &fleetv1.NotifierSpec{
			GroupWindow: durationpb.New(time.Second),
			Sink: &fleetv1.NotifierSpec_CommitStatus{CommitStatus: &fleetv1.CommitStatusSink{
				Provider: "gitea", Url: forge.URL, Token: proto.String("the-token"), Repositories: []string{"demo"},
			}},
		}}))
	// Made after the notifiers, which are therefore told everything about it.
	h.apply(t, clusterDocument("one"), serviceDocument("app", "one", "demo", "app"))
	agent := h.enrol(t, "one")
	entry := entryOf(h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest()), "app")
	sequence := uint64(0)
	report := func(phase typev1.ServicePhase, problem *typev1.Problem) {
		t.Helper()
		sequence++
		_, err := h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			Instance: "i", Sequence: sequence, Full: sequence == 1, Services: []*distributorv1.ServiceReport{{
				Service: "app", ServiceUid: entry.GetUid(), Phase: phase, Problem: problem, ObservedSpecDigest: entry.GetSpecDigest(),
				ObservedDigests: []string{content.snapshot.GetDigest()}, AppliedDigests: []string{content.snapshot.GetDigest()},
				ObservedCommits: []string{commit}, AppliedCommits: []string{commit},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	report(typev1.ServicePhase_SERVICE_PHASE_HEALTHY, nil)
	forge.await(t, commit, "success", "1 healthy, 0 failed, 0 in progress")
	report(typev1.ServicePhase_SERVICE_PHASE_DEGRADED, &typev1.Problem{Reason: errorsv1.Reason_REASON_HEALTH_TIMEOUT, Message: "a pod crashes"})
	forge.await(t, commit, "failure", "0 healthy, 1 failed, 0 in progress")
	report(typev1.ServicePhase_SERVICE_PHASE_FAILED, &typev1.Problem{Reason: errorsv1.Reason_REASON_MANIFEST_INVALID, Message: "a folder that is no manifest"})
	await.True(t, "the failure", func() bool { return len(r.all()) == 1 })
	report(typev1.ServicePhase_SERVICE_PHASE_HEALTHY, nil)
	await.True(t, "the recovery", func() bool { return len(r.all()) == 2 })
	forge.await(t, commit, "success", "1 healthy, 0 failed, 0 in progress")
	var told []string
	for _, m := range r.all() {
		e := m.event.Data.Events[0]
		told = append(told, fmt.Sprintf("%s %s %s %s", m.event.Type, e.Service, e.Cluster, e.Reason))
	}
	if diff := cmp.Diff([]string{"dev.leat.service.failed app one MANIFEST_INVALID", "dev.leat.service.recovered app one "}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// forge is a Gitea as far as statuses of commits go. It keeps the last one of each commit.
type forge struct {
	*httptest.Server

	mu   sync.Mutex
	last map[string]string
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{last: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/repos/{owner}/{repository}/statuses/{commit}", func(w http.ResponseWriter, req *http.Request) {
		var status struct{ State, Description, Context string }
		if err := json.NewDecoder(req.Body).Decode(&status); err != nil || req.Header.Get("Authorization") != "token the-token" {
			t.Errorf("got %v, %v", req.Header, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.last[req.PathValue("commit")] = status.State + " " + status.Description
		w.WriteHeader(http.StatusCreated)
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// await waits for a commit to have a status.
func (f *forge) await(t *testing.T, commit, state, description string) {
	t.Helper()
	await.True(t, "the status "+state, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.last[commit] == state+" "+description
	})
}

// TestNotifierTriesAgain lets a receiver fail for a while, restarts the hub meanwhile, refuses a
// message, and has it sent again: its id stays.
func TestNotifierTriesAgain(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	r.answer(http.StatusServiceUnavailable)
	h.apply(t, webhookNotifier("", "ops", r.URL, func(s *fleetv1.NotifierSpec) { s.Events = []string{"cluster.connected"} }))
	h.apply(t, clusterDocument("berlin"))
	connectOne(t, h, "berlin")
	status := func() *fleetv1.NotifierStatus {
		got, err := fleetcalls.Get[*fleetv1.Notifier](t.Context(), h.fleet(t, adminToken), "ops")
		if err != nil {
			t.Fatal(err)
		}
		return got.GetStatus()
	}
	await.True(t, "a failure", func() bool { return strings.Contains(status().GetLastError(), "503") })
	h.stop(t)
	r.answer(http.StatusGone)
	h.start(t)
	await.True(t, "the message to be given up", func() bool { return status().GetDead() == 1 })
	h.wantProblem(t, "Notifier", fleetv1.ProblemSeverity_PROBLEM_SEVERITY_DEGRADED, "has given 1 message up")
	letters, err := h.notifiers(t, adminToken).ListDeadLetters(t.Context(), &fleetv1.ListDeadLettersRequest{Name: "ops"})
	if err != nil || len(letters.GetDeadLetters()) != 1 {
		t.Fatalf("got %v, %v", letters, err)
	}
	dead := letters.GetDeadLetters()[0]
	if dead.GetKind() != "cluster.connected" || !strings.Contains(dead.GetError(), "410 Gone the answer") || !strings.Contains(dead.GetText(), "berlin") {
		t.Errorf("got %v", dead)
	}
	r.answer(http.StatusOK)
	again, err := h.notifiers(t, adminToken).ResendNotifier(t.Context(), &fleetv1.ResendNotifierRequest{Name: "ops", Ids: []string{dead.GetId(), "other"}})
	if err != nil || again.GetCount() != 1 {
		t.Fatalf("got %v, %v", again, err)
	}
	await.True(t, "the message", func() bool { return len(r.all()) == 1 })
	if got := r.all()[0].event.ID; got != dead.GetId() {
		t.Errorf("got id %s, want %s", got, dead.GetId())
	}
}

// TestNotifierTest sends an example, and shows what the receiver answers.
func TestNotifierTest(t *testing.T) {
	t.Parallel()
	h, r := startHub(t, local), newReceiver(t)
	h.apply(t, webhookNotifier("", "ops", r.URL, func(s *fleetv1.NotifierSpec) { s.Text = "'n=' + string(self.count)" }))
	test := func() *fleetv1.TestNotifierResponse {
		got, err := h.notifiers(t, adminToken).TestNotifier(t.Context(), &fleetv1.TestNotifierRequest{Name: "ops"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := test(); !got.GetAccepted() || got.GetAnswer() != "200 OK the answer" {
		t.Errorf("got %v", got)
	}
	if got := r.all()[0]; got.event.Type != "dev.leat.test" || got.event.Data.Text != "n=1" {
		t.Errorf("got %s", got.body)
	}
	r.answer(http.StatusForbidden)
	if got := test(); got.GetAccepted() || !strings.Contains(got.GetAnswer(), "403 Forbidden the answer") {
		t.Errorf("got %v", got)
	}
}

// TestSecNotifierSeesItsProject: the notifier of a project is told of nothing that belongs to another
// one, by name, filter or text, and people of the project do not see a notifier of all projects.
func TestSecNotifierSeesItsProject(t *testing.T) {
	t.Parallel()
	h, own, all := startHub(t, local), newReceiver(t), newReceiver(t)
	project := fleetdoc.Of(&fleetv1.Project{Metadata: &typev1.Metadata{Name: "shop"}})
	inShop := fleetdoc.Of(&fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "berlin", Project: "shop"}})
	h.apply(t, project)
	h.apply(t, webhookNotifier("shop", "ops", own.URL), webhookNotifier("", "everything", all.URL, func(s *fleetv1.NotifierSpec) { s.AllProjects = true }))
	h.apply(t, inShop, clusterDocument("secret"))
	connectOne(t, h, "secret")
	a := h.enrolPath(t, "shop/berlin", "shop.berlin")
	h.watchPlan(t, a.token, "")
	named := func(r *receiver) (names []string) {
		for _, m := range r.all() {
			for _, e := range m.event.Data.Events {
				names = append(names, e.Cluster)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	await.True(t, "both clusters", func() bool { return len(named(all)) == 2 })
	await.True(t, "the own cluster", func() bool { return len(named(own)) > 0 })
	if got := named(own); fmt.Sprint(got) != "[shop/berlin]" {
		t.Errorf("the project's notifier was told of %v", got)
	}
	for _, m := range own.all() {
		if bytes.Contains(m.body, []byte("secret")) {
			t.Errorf("the project's notifier was sent %s", m.body)
		}
	}
}

// TestSecNotifierSecrets: a stored secret is not sent to another address than it was given for, and a
// hub that does not allow its own machine sends nothing there.
func TestSecNotifierSecrets(t *testing.T) {
	t.Parallel()
	h, r := startHub(t), newReceiver(t)
	update := func(document *fleetv1.Document) error {
		_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
		return err
	}
	if err := update(webhookNotifier("", "ops", r.URL)); err == nil || !strings.Contains(err.Error(), "hub's own machine") {
		t.Errorf("a sink at this machine: got %v", err)
	}
	if err := update(webhookNotifier("", "ops", "https://hooks.example/a")); err != nil {
		t.Fatal(err)
	}
	moved := webhookNotifier("", "ops", "https://evil.example/a")
	moved.GetNotifier().Spec.GetWebhook().HmacKey = nil
	if err := update(moved); err == nil || !strings.Contains(err.Error(), "hmac_key") {
		t.Errorf("a stored key for another receiver: got %v", err)
	}
	forge := func(url string, token *string) *fleetv1.Document {
		return fleetdoc.Of(&fleetv1.Notifier{Metadata: &typev1.Metadata{Name: "forge"}, Spec: &fleetv1.NotifierSpec{
			Sink: &fleetv1.NotifierSpec_CommitStatus{CommitStatus: &fleetv1.CommitStatusSink{Provider: "gitea", Url: url, Token: token, Repositories: []string{"demo"}}},
		}})
	}
	token := "a token"
	if err := update(forge("https://git.example", &token)); err != nil {
		t.Fatal(err)
	}
	if err := update(forge("https://evil.example", nil)); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a stored token for another forge: got %v", err)
	}
	if err := update(forge("https://git.example", nil)); err != nil {
		t.Errorf("a stored token for the same forge: got %v", err)
	}
}
