// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/testkit/await"
)

func TestApply(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	documents := []*fleetv1.Document{serviceDocument("app", "one", "demo", "app"), clusterDocument("one"), repositoryDocument("demo")}
	for _, want := range []fleetv1.ApplyAction{fleetv1.ApplyAction_APPLY_ACTION_CREATED, fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED} {
		for i, outcome := range h.apply(t, documents...).GetOutcomes() {
			if outcome.GetAction() != want {
				t.Errorf("document %d: got %v, want %v", i, outcome.GetAction(), want)
			}
			if i == 0 && outcome.GetDocument().GetService().GetMetadata().GetName() != "app" {
				t.Errorf("got %v first, want the order of the request", outcome.GetDocument())
			}
		}
	}
	changed := serviceDocument("app", "one", "demo", "app")
	changed.GetService().Spec.Paused = true
	admin := h.fleet(t, adminToken)
	for _, dry := range []bool{true, true, false} {
		res, err := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{changed}, DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.GetOutcomes()[0].GetAction(); got != fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED {
			t.Errorf("got %v, want configured", got)
		}
	}
	got, err := fleetcalls.Get[*fleetv1.Service](t.Context(), admin, "app")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed.GetService().GetSpec(), got.GetSpec(), protocmp.Transform()); diff != "" {
		t.Errorf("spec differs (-want +got):\n%s", diff)
	}
	if meta := got.GetMetadata(); meta.GetGeneration() != 2 || meta.GetUid() == "" {
		t.Errorf("got %v, want generation 2", meta)
	}
}

// TestPruneConfirmation has a person let a stopped prune through: the confirmation goes to the
// agent, as a new spec.
func TestPruneConfirmation(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	agent := h.enrol(t, "one")
	before := h.watchPlan(t, h.refresh(t, agent), "").next(t).GetServices()[0]

	document := serviceDocument("app", "one", "demo", "app")
	document.GetService().Spec.Sync = &fleetv1.SyncOptions{PruneConfirmation: "sha256"}
	_, err := h.fleet(t, adminToken).Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{document}})
	wantReason(t, err, "FIELD_INVALID")

	document.GetService().Spec.Sync.PruneConfirmation = before.GetSpecDigest()
	outcome := h.apply(t, document).GetOutcomes()[0]
	if got := outcome.GetDocument().GetService().GetSpec().GetSync().GetPruneConfirmation(); got != before.GetSpecDigest() {
		t.Errorf("got confirmation %q back, want %q", got, before.GetSpecDigest())
	}
	after := h.watchPlan(t, h.refresh(t, agent), "").next(t).GetServices()[0]
	if got := after.GetApply().GetPruneConfirmation(); got != before.GetSpecDigest() {
		t.Errorf("plan: got confirmation %q, want %q", got, before.GetSpecDigest())
	}
	if after.GetSpecDigest() == before.GetSpecDigest() {
		t.Error("the spec's digest is as before; the agent would not try again")
	}
}

// TestErrorReasons asserts each reason that an edit or a read can fail with.
func TestErrorReasons(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"), clusterDocument("two"), repositoryDocument("demo"), serviceDocument("app", "one", "demo", "app"))
	admin, ctx := h.fleet(t, adminToken), t.Context()
	apply := func(documents ...*fleetv1.Document) error {
		_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: documents})
		return err
	}
	bad := func(change func(*fleetv1.Service)) error {
		document := serviceDocument("bad", "one", "demo", "app")
		change(document.GetService())
		return apply(clusterDocument("one"), document)
	}
	repository := func(change func(*fleetv1.RepositorySpec)) error {
		document := repositoryDocument("bad")
		change(document.GetRepository().GetSpec())
		return apply(document)
	}
	many := make([]*fleetv1.Document, 1001)
	for i := range many {
		many[i] = clusterDocument(fmt.Sprintf("c%d", i))
	}
	stale := clusterDocument("one").GetCluster()
	stale.Metadata.ResourceVersion = 99
	for name, test := range map[string]struct {
		err    error
		reason string
		field  string
	}{
		"no object": {apply(&fleetv1.Document{}), "FIELD_INVALID", "documents[0].object"},
		"too many":  {apply(many...), "FIELD_INVALID", "documents"},
		"twice":     {apply(clusterDocument("one"), clusterDocument("one")), "FIELD_INVALID", "documents[1].metadata.name"},
		"name":      {apply(clusterDocument("Not_A_Label")), "FIELD_INVALID", "documents[0].metadata.name"},
		"path":      {bad(func(s *fleetv1.Service) { s.Spec.Sources[0].Path = "../up" }), "FIELD_INVALID", "documents[1].spec.sources[0].path"},
		"root":      {bad(func(s *fleetv1.Service) { s.Spec.Sources[0].Root = "other" }), "FIELD_INVALID", "documents[1].spec.sources[0].root"},
		"folder":    {bad(func(s *fleetv1.Service) { s.Spec.Sources[0].Folders = []string{"a", "/b"} }), "FIELD_INVALID", "documents[1].spec.sources[0].folders[1]"},
		"pattern":   {bad(func(s *fleetv1.Service) { s.Spec.Sources[0].Exclude = []string{"[a"} }), "FIELD_INVALID", "documents[1].spec.sources[0].exclude[0]"},
		"no source": {bad(func(s *fleetv1.Service) { s.Spec.Sources = nil }), "FIELD_INVALID", "documents[1].spec.sources"},
		"renderer":  {bad(func(s *fleetv1.Service) { s.Spec.Renderer = 99 }), "FIELD_INVALID", "documents[1].spec.renderer"},
		"timeout": {bad(func(s *fleetv1.Service) {
			s.Spec.Sync = &fleetv1.SyncOptions{HealthTimeout: &durationpb.Duration{Nanos: -1, Seconds: 1}}
		}), "FIELD_INVALID", "documents[1].spec.sync.health_timeout"},
		"URL":             {repository(func(r *fleetv1.RepositorySpec) { r.Url = "https://user:hunter2@host/x" }), "FIELD_INVALID", "documents[0].spec.url"},
		"poll interval":   {repository(func(r *fleetv1.RepositorySpec) { r.PollInterval = durationpb.New(time.Second) }), "FIELD_INVALID", "documents[0].spec.poll_interval"},
		"unknown cluster": {bad(func(s *fleetv1.Service) { s.Spec.Cluster = "none" }), "REFERENCE_NOT_FOUND", "documents[1].spec.cluster"},
		"unknown source":  {bad(func(s *fleetv1.Service) { s.Spec.Sources[0].Repository = "none" }), "REFERENCE_NOT_FOUND", "documents[1].spec.sources[0].repository"},
		"moved":           {second(fleetcalls.Update(ctx, admin, serviceDocument("app", "two", "demo", "app").GetService())), "NOT_FOUND", ""},
		"exists":          {second(fleetcalls.Create(ctx, admin, clusterDocument("one").GetCluster())), "ALREADY_EXISTS", ""},
		"stale":           {second(fleetcalls.Update(ctx, admin, stale)), "VERSION_CONFLICT", ""},
		"update unknown":  {second(fleetcalls.Update(ctx, admin, clusterDocument("none").GetCluster())), "NOT_FOUND", ""},
		"get unknown":     {second(fleetcalls.Get[*fleetv1.Service](ctx, admin, "none")), "NOT_FOUND", ""},
		"get nothing":     {second(fleetcalls.Get[*fleetv1.Service](ctx, admin, "")), "FIELD_INVALID", "name"},
		"cluster in use":  {fleetcalls.Delete[*fleetv1.Cluster](ctx, admin, "one"), "IN_USE", ""},
		"source in use":   {fleetcalls.Delete[*fleetv1.Repository](ctx, admin, "demo"), "IN_USE", ""},
		"delete unknown":  {fleetcalls.Delete[*fleetv1.Service](ctx, admin, "none"), "NOT_FOUND", ""},
		"sync unknown":    {second(admin.SyncService(ctx, &fleetv1.SyncServiceRequest{Name: "none"})), "NOT_FOUND", ""},
		"revoke unknown":  {second(admin.RevokeCluster(ctx, &fleetv1.RevokeClusterRequest{Cluster: "none"})), "NOT_FOUND", ""},
		"page token":      {second(fleetcalls.List[*fleetv1.Service](ctx, admin, &fleetv1.ListRequest{Page: &typev1.Page{Token: "!"}})), "FIELD_INVALID", "page.token"},
		"page size":       {second(fleetcalls.List[*fleetv1.Service](ctx, admin, &fleetv1.ListRequest{Page: &typev1.Page{Size: -1}})), "FIELD_INVALID", "page.size"},

		"get of no kind":       {second(admin.Get(ctx, &fleetv1.GetRequest{Name: "app"})), "FIELD_INVALID", "kind"},
		"get of unknown kind":  {second(admin.Get(ctx, &fleetv1.GetRequest{Kind: "service", Name: "app"})), "FIELD_INVALID", "kind"},
		"list of unknown kind": {second(admin.List(ctx, &fleetv1.ListRequest{Kind: strings.Repeat("x", 9999)})), "FIELD_INVALID", "kind"},
		"users of a project":   {second(admin.List(ctx, &fleetv1.ListRequest{Kind: "User", Project: "default"})), "FIELD_INVALID", "project"},
		"roles of a cluster":   {second(admin.List(ctx, &fleetv1.ListRequest{Kind: "Role", Cluster: "one"})), "FIELD_INVALID", "cluster"},
		"no project":           {second(admin.List(ctx, &fleetv1.ListRequest{Kind: "Service", Project: "a/b"})), "FIELD_INVALID", "project"},
		"delete of no kind":    {second(admin.Delete(ctx, &fleetv1.DeleteRequest{Name: "app"})), "FIELD_INVALID", "kind"},
		"cascade of a cluster": {second(admin.Delete(ctx, &fleetv1.DeleteRequest{Kind: "Cluster", Name: "one", Cascade: true})), "FIELD_INVALID", "cascade"},
		"unknown mode":         {second(admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{clusterDocument("new")}, Mode: 17})), "FIELD_INVALID", "mode"},
		"one of two exists": {second(admin.Apply(ctx, &fleetv1.ApplyRequest{
			Documents: []*fleetv1.Document{clusterDocument("new"), clusterDocument("one")}, Mode: fleetv1.ApplyMode_APPLY_MODE_CREATE,
		})), "ALREADY_EXISTS", ""},
		"one of two is missing": {second(admin.Apply(ctx, &fleetv1.ApplyRequest{
			Documents: []*fleetv1.Document{clusterDocument("one"), clusterDocument("new")}, Mode: fleetv1.ApplyMode_APPLY_MODE_UPDATE,
		})), "NOT_FOUND", ""},
		"neither made the new one": {second(fleetcalls.Get[*fleetv1.Cluster](ctx, admin, "new")), "NOT_FOUND", ""},
		"watch of unknown kind":    {watchOnce(ctx, admin, &fleetv1.WatchRequest{Kind: "Pod"}), "FIELD_INVALID", "kind"},
		"watch of a name":          {watchOnce(ctx, admin, &fleetv1.WatchRequest{Name: "app"}), "FIELD_INVALID", "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			wantReason(t, test.err, test.reason)
			if got := rpcerr.Metadata(test.err)["field"]; got != test.field {
				t.Errorf("got field %q, want %q", got, test.field)
			}
			if strings.Contains(test.err.Error(), "hunter2") {
				t.Error("the error repeats the password")
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// watchOnce returns the error that a stream begins with.
func watchOnce(ctx context.Context, client fleetv1connect.FleetServiceClient, req *fleetv1.WatchRequest) error {
	stream, err := client.Watch(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	stream.Receive()
	return stream.Err()
}

func TestListInPages(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	var documents []*fleetv1.Document
	for i := range 7 {
		documents = append(documents, clusterDocument(fmt.Sprintf("c%d", 6-i)))
	}
	h.apply(t, documents...)
	var names []string
	page := &typev1.Page{Size: 3}
	for {
		res, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), &fleetv1.ListRequest{Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range res.Objects {
			names = append(names, c.GetMetadata().GetName())
		}
		if page.Token = res.NextPageToken; page.Token == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "c0 c1 c2 c3 c4 c5 c6" {
		t.Errorf("got %s, want each cluster once, by name", got)
	}
}

// TestMirrorsAreShownAsTheyAre has a mirror polled over and over without an event, as happens while
// nothing changes: readers are shown when it was checked last, and that costs one question a page,
// and nothing without readers.
func TestMirrorsAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, repositoryDocument("demo"), repositoryDocument("other"), repositoryDocument("unowned"))
	await.True(t, "the distributor to watch", func() bool { return h.git.watches() > 0 })
	for _, name := range []string{"demo", "other", "unowned"} {
		h.git.announce(name, "")
	}
	admin := h.fleet(t, adminToken)
	get := func(name string) *gitcachev1.RepositoryState {
		t.Helper()
		res, err := fleetcalls.Get[*fleetv1.Repository](t.Context(), admin, name)
		if err != nil {
			t.Fatal(err)
		}
		return res.GetStatus()
	}
	await.True(t, "the events", func() bool { return get("unowned") != nil })

	checked := time.Now().UTC().Truncate(time.Second)
	for _, moment := range []time.Time{checked, checked.Add(time.Minute)} {
		polled := &gitcachev1.RepositoryState{
			Phase: gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY, Epoch: 1,
			FreshAt: timestamppb.New(moment), NextPollAt: timestamppb.New(moment.Add(time.Hour)),
		}
		before := proto.CloneOf(polled)
		before.Epoch = 0 // an owner that has been replaced
		h.git.setStates(map[string]*gitcachev1.RepositoryState{"demo": polled, "other": before})
		if diff := cmp.Diff(polled, get("demo"), protocmp.Transform()); diff != "" {
			t.Errorf("state differs (-want +got):\n%s", diff)
		}
		asked := h.git.count(&h.git.asked)
		res, err := fleetcalls.List[*fleetv1.Repository](t.Context(), admin, &fleetv1.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Objects {
			want := time.Unix(0, 0).UTC()
			if r.GetMetadata().GetName() == "demo" {
				want = moment
			}
			if got := r.GetStatus().GetFreshAt().AsTime(); !got.Equal(want) || r.GetStatus().GetEpoch() != 1 {
				t.Errorf("%s: got %v, want it fresh at %s", r.GetMetadata().GetName(), r.GetStatus(), want)
			}
		}
		if got := h.git.count(&h.git.asked) - asked; got != 1 {
			t.Errorf("got %d questions for a page, want 1", got)
		}
	}
	h.git.stop()
	if got := get("demo"); got.GetPhase() != gitcachev1.RepositoryPhase_REPOSITORY_PHASE_READY {
		t.Errorf("got %v without a gitcache, want what was last reported", got)
	}
}

func TestCredentialsGoToGitcacheAndNowhereElse(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	document := repositoryDocument("demo")
	document.GetRepository().Spec.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_Basic{
		Basic: &gitcachev1.BasicCredential{Username: "u", Password: "hunter2"},
	}}
	document.GetRepository().Spec.WebhookSecret = proto.String("hunter2 and his webhooks")
	res := h.apply(t, document)
	admin := h.fleet(t, adminToken)
	got, err := fleetcalls.Get[*fleetv1.Repository](t.Context(), admin, "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{protojson.Format(res), protojson.Format(got)} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "credential") || strings.Contains(text, "webhook") {
			t.Errorf("got %s, want no credential and no webhook secret", text)
		}
	}
	update := repositoryDocument("demo").GetRepository()
	update.Spec.Suspended = true
	if _, err := fleetcalls.Update(t.Context(), admin, update); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the updated definition with the old credential", func() bool {
		d := h.git.definition("demo")
		return d.GetSuspended() && d.GetCredential().GetBasic().GetPassword() == "hunter2" &&
			d.GetWebhookSecret() == "hunter2 and his webhooks"
	})
	if err := fleetcalls.Delete[*fleetv1.Repository](t.Context(), admin, "demo"); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the definition to be gone", func() bool { return h.git.definition("demo") == nil })
}

func TestWatch(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.apply(t, clusterDocument("one"), repositoryDocument("demo"))
	admin := h.fleet(t, adminToken)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	stream, err := admin.Watch(ctx, &fleetv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	next := func() *fleetv1.WatchResponse {
		t.Helper()
		if !stream.Receive() {
			t.Fatalf("stream ended: %v", stream.Err())
		}
		return stream.Msg()
	}
	if got := next().GetDocument().GetProject().GetMetadata().GetName(); got != "default" {
		t.Errorf("got %q, want the project default first", got)
	}
	if got := next().GetDocument().GetCluster().GetMetadata().GetName(); got != "one" {
		t.Errorf("got %q, want cluster one", got)
	}
	if got := next().GetDocument().GetRepository().GetMetadata().GetName(); got != "demo" {
		t.Errorf("got %q, want repository demo", got)
	}
	if got := next().GetDocument().GetUser().GetMetadata().GetName(); got != "admin" {
		t.Errorf("got %q, want the user admin", got)
	}
	if !next().GetSynced() {
		t.Error("got no synced marker after what was there")
	}
	h.apply(t, clusterDocument("two"))
	for next := next(); next.GetDocument().GetCluster().GetMetadata().GetName() != "two"; next = stream.Msg() {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
	}
	if err := fleetcalls.Delete[*fleetv1.Cluster](t.Context(), admin, "two"); err != nil {
		t.Fatal(err)
	}
	for {
		change := next()
		if change.GetDeleted() {
			if got := change.GetDocument().GetCluster().GetMetadata().GetName(); got != "two" {
				t.Errorf("got %q deleted, want two", got)
			}
			break
		}
	}
}

func TestStatusFollowsTheAgent(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())
	entry := plan.GetServices()[0]
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_PENDING && s.GetStatus().GetReport() == nil
	})
	sequence := uint64(0)
	report := func(full bool, phase typev1.ServicePhase, applied ...string) *distributorv1.ReportStatusResponse {
		t.Helper()
		sequence++
		res, err := h.agents(t, agent.token).ReportStatus(t.Context(), &distributorv1.ReportStatusRequest{
			PlanVersion: plan.GetVersion(), Instance: "process", Sequence: sequence, Full: full,
			Cluster: &distributorv1.ClusterReport{KubernetesVersion: "v1.36.3", Nodes: 3},
			Services: []*distributorv1.ServiceReport{{
				Service: "app", ServiceUid: entry.GetUid(), Phase: phase, ObservedSpecDigest: entry.GetSpecDigest(), AppliedDigests: applied,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if !report(false, typev1.ServicePhase_SERVICE_PHASE_SYNCING).GetWantFull() {
		t.Error("got no want_full for a process that is not known")
	}
	if report(true, typev1.ServicePhase_SERVICE_PHASE_SYNCING).GetWantFull() {
		t.Error("got want_full for a full report")
	}
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_SYNCING && !s.GetStatus().GetSynced()
	})
	report(false, typev1.ServicePhase_SERVICE_PHASE_HEALTHY, entry.GetBundles()[0].GetDigest())
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_HEALTHY && s.GetStatus().GetSynced() && s.GetStatus().GetObservedGeneration() == 1
	})
	cluster, err := fleetcalls.Get[*fleetv1.Cluster](t.Context(), h.fleet(t, adminToken), "one")
	if err != nil {
		t.Fatal(err)
	}
	status := cluster.GetStatus()
	if !status.GetEnrolled() || !status.GetConnected() || status.GetServices() != 1 || status.GetServicesHealthy() != 1 ||
		status.GetReport().GetNodes() != 3 || status.GetPlanVersion() != plan.GetVersion() {
		t.Errorf("got %v, want one healthy service of a connected cluster", status)
	}

	// New content: the healthy content is not the desired one any more.
	h.git.set("demo", "app", newFolder(t, "c2", "two"))
	h.git.announce("demo", "", "refs/heads/main")
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_SYNCING && !s.GetStatus().GetSynced()
	})
}

func TestUnresolvableSourceKeepsTheLastGood(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	agent := h.enrol(t, "one")
	plan := h.watchPlan(t, agent.token, "").nextWith(t, content.snapshot.GetDigest())

	h.git.set("demo", "app", nil)
	h.git.announce("demo", "", "refs/heads/main")
	service := h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED
	})
	source := service.GetStatus().GetSources()[0]
	if source.GetSnapshot().GetCommit() != "c1" || source.GetProblem().GetReason().String() != "REASON_PATH_NOT_FOUND" ||
		service.GetStatus().GetProblem().GetMessage() == "" || source.GetProblem().GetSince() == nil {
		t.Errorf("got %v, want the last good snapshot with the problem beside it", service.GetStatus())
	}
	res, err := h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{KnownVersion: plan.GetVersion()})
	if err != nil || !res.GetUnchanged() {
		t.Errorf("got %v, %v, want the same plan", res, err)
	}

	// The recovery of an upstream is noticed without an edit.
	h.git.set("demo", "app", content)
	h.git.refuse("demo", rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED, "the upstream refused the credential"))
	h.git.announce("demo", "")
	h.waitService(t, "app", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetProblem().GetReason() == errorsv1.Reason_REASON_UPSTREAM_AUTH_REJECTED
	})
	h.git.refuse("demo", nil)
	h.git.announce("demo", "")
	h.waitService(t, "app", func(s *fleetv1.Service) bool { return s.GetStatus().GetProblem() == nil })

	// Never resolved: in the plan, without bundles.
	h.apply(t, serviceDocument("lost", "one", "demo", "nowhere"))
	h.waitService(t, "lost", func(s *fleetv1.Service) bool {
		return s.GetStatus().GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED
	})
	res, err = h.agents(t, agent.token).GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil || len(res.GetPlan().GetServices()) != 2 || len(res.GetPlan().GetServices()[1].GetBundles()) != 0 {
		t.Errorf("got %v, %v, want the service without bundles", res, err)
	}
}

func TestSyncService(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	first, second := newFolder(t, "c1", "one"), newFolder(t, "c2", "two")
	h.demo(t, first)
	agent := h.enrol(t, "one")
	stream := h.watchPlan(t, agent.token, "")
	stream.nextWith(t, first.snapshot.GetDigest())
	h.git.set("demo", "app", second) // and without an announcement
	res, err := h.fleet(t, adminToken).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if res.GetProblem() != nil {
		t.Errorf("got %v, want no problem", res.GetProblem())
	}
	if got := h.git.count(&h.git.refreshes); got != 1 {
		t.Errorf("got %d refreshes, want 1", got)
	}
	for {
		entry := stream.nextWith(t, second.snapshot.GetDigest()).GetServices()[0]
		if entry.GetSyncRequest() == res.GetSyncRequest() {
			break
		}
	}
}

// TestSyncTellsOfAnUpstreamThatFails has the agent continue with the known content, and the caller
// know.
func TestSyncTellsOfAnUpstreamThatFails(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.git.mu.Lock()
	h.git.upstream = &typev1.Problem{Reason: errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE, Message: "no answer"}
	h.git.mu.Unlock()
	res, err := h.fleet(t, adminToken).SyncService(t.Context(), &fleetv1.SyncServiceRequest{Name: "app"})
	if err != nil || res.GetSyncRequest() == "" || res.GetProblem().GetReason() != errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE {
		t.Errorf("got %v, %v, want a sync that names the upstream's problem", res, err)
	}
}
