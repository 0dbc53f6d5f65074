// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/plandelta"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
)

// over returns a client of the hub over HTTP/1.1 or HTTP/2.
func (h *hub) over(t *testing.T, token string, http1 bool, options ...connect.ClientOption) distributorv1connect.DistributorServiceClient {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(http1)
	protocols.SetUnencryptedHTTP2(!http1)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := rpc.NewClient(rpc.ClientParams{BaseURL: h.url, Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop(), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return distributorv1connect.NewDistributorServiceClient(c.HTTP, c.BaseURL, append(c.Options, options...)...)
}

// pausedDocument is the service app, paused.
func pausedDocument() *fleetv1.Document {
	document := serviceDocument("app", "one", "demo", "app")
	document.GetService().Spec.Paused = true
	return document
}

// TestPlansOverEveryProtocol has agents that speak Connect, gRPC and gRPC-web get, poll and watch
// their plan.
func TestPlansOverEveryProtocol(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	h.waitService(t, "other", resolvedAt("c1"))
	h.waitService(t, "app", resolvedAt("c1"))
	token := h.enrol(t, "one").token
	for name, way := range map[string]struct {
		http1   bool
		options []connect.ClientOption
	}{
		"Connect":                   {},
		"Connect with GET":          {options: []connect.ClientOption{connect.WithHTTPGet()}},
		"Connect in JSON, HTTP/1.1": {http1: true, options: []connect.ClientOption{connect.WithProtoJSON()}},
		"gRPC":                      {options: []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-web":                  {options: []connect.ClientOption{connect.WithGRPCWeb()}},
		"gRPC-web, HTTP/1.1":        {http1: true, options: []connect.ClientOption{connect.WithGRPCWeb()}},
	} {
		t.Run(name, func(t *testing.T) {
			h.apply(t, serviceDocument("app", "one", "demo", "app")) // not paused
			client := h.over(t, token, way.http1, way.options...)
			checkProtocol(t, h, client)
		})
	}
}

// resolvedAt waits for a service whose source was resolved to the commit.
func resolvedAt(commit string) func(*fleetv1.Service) bool {
	return func(s *fleetv1.Service) bool {
		sources := s.GetStatus().GetSources()
		return len(sources) > 0 && sources[0].GetSnapshot().GetCommit() == commit
	}
}

func checkProtocol(t *testing.T, h *hub, client distributorv1connect.DistributorServiceClient) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	res, err := client.GetPlan(ctx, &distributorv1.GetPlanRequest{AcceptDelta: true})
	if err != nil || len(res.GetPlan().GetServices()) != 2 {
		t.Fatalf("got %v, %v, want a plan of two services", res, err)
	}
	first := res.GetPlan()
	res, err = client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: first.GetVersion(), AcceptDelta: true})
	if err != nil || !res.GetUnchanged() || res.GetPlan() != nil || res.GetDelta() != nil {
		t.Errorf("got %v, %v, want unchanged", res, err)
	}
	stream, err := client.WatchPlan(ctx, &distributorv1.WatchPlanRequest{AcceptDelta: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() || !cmp.Equal(stream.Msg().GetPlan(), first, protocmp.Transform()) {
		t.Fatalf("got %v, %v, want the whole plan first", stream.Msg(), stream.Err())
	}
	h.apply(t, pausedDocument())
	for stream.Receive() && stream.Msg().GetDelta() == nil {
		if stream.Msg().GetHeartbeat() == nil {
			t.Fatalf("got %v, want a delta", stream.Msg())
		}
	}
	second := checkDelta(t, first, stream.Msg().GetDelta())
	res, err = client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: first.GetVersion(), AcceptDelta: true})
	if err != nil || !cmp.Equal(checkDelta(t, first, res.GetDelta()), second, protocmp.Transform()) || res.GetPlan() != nil {
		t.Errorf("got %v, %v, want the same delta from a poll", res, err)
	}
	res, err = client.GetPlan(ctx, &distributorv1.GetPlanRequest{KnownVersion: first.GetVersion()})
	if err != nil || !cmp.Equal(res.GetPlan(), second, protocmp.Transform()) || res.GetDelta() != nil {
		t.Errorf("got %v, %v, want the whole plan for a caller that cannot apply deltas", res, err)
	}
}

// checkDelta wants a delta that changes app alone, and returns what comes out.
func checkDelta(t *testing.T, from *distributorv1.Plan, delta *distributorv1.PlanDelta) *distributorv1.Plan {
	t.Helper()
	plan, err := plandelta.Apply(from, delta)
	if err != nil {
		t.Fatalf("got %v for %v", err, delta)
	}
	if len(delta.GetServices()) != 1 || delta.GetServices()[0].GetName() != "app" || !plan.GetServices()[0].GetApply().GetPaused() {
		t.Errorf("got %v, want app alone, paused", delta)
	}
	return plan
}

// TestStreamsResume has a stream that was cut continue: from a version that the hub remembers by a
// delta, from one that it does not by the whole plan, and at the current one by silence.
func TestStreamsResume(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	h.demo(t, newFolder(t, "c1", "one"))
	h.apply(t, serviceDocument("other", "one", "demo", "app"))
	h.waitService(t, "other", resolvedAt("c1"))
	h.waitService(t, "app", resolvedAt("c1"))
	client := h.agents(t, h.enrol(t, "one").token)
	resume := func(version string, delta bool) *distributorv1.WatchPlanResponse {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		stream, err := client.WatchPlan(ctx, &distributorv1.WatchPlanRequest{KnownVersion: version, AcceptDelta: delta})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		return stream.Msg()
	}
	first := resume("", true).GetPlan()
	if got := resume(first.GetVersion(), true).GetHeartbeat(); got.GetVersion() != first.GetVersion() {
		t.Errorf("got %v, want a heartbeat of the current version", got)
	}
	h.apply(t, pausedDocument())
	second := checkDelta(t, first, resume(first.GetVersion(), true).GetDelta())
	if got := resume(first.GetVersion(), false).GetPlan(); !cmp.Equal(got, second, protocmp.Transform()) {
		t.Errorf("got %v, want the whole plan for an agent that cannot apply deltas", got)
	}
	if got := resume("sha256:unknown", true).GetPlan(); !cmp.Equal(got, second, protocmp.Transform()) {
		t.Errorf("got %v, want the whole plan for a version that is not known", got)
	}
	// Nothing is left of the first plan: the whole one is shorter.
	h.apply(t, serviceDocument("app", "one", "demo", "elsewhere"))
	if err := fleetcalls.Delete[*fleetv1.Service](t.Context(), h.fleet(t, adminToken), "other"); err != nil {
		t.Fatal(err)
	}
	if got := resume(first.GetVersion(), true).GetPlan(); len(got.GetServices()) != 1 {
		t.Errorf("got %v, want the whole plan", got)
	}
}

// TestGetDigest asks for one service.
func TestGetDigest(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	content := newFolder(t, "c1", "one")
	h.demo(t, content)
	h.apply(t, serviceDocument("other", "one", "demo", "app"), clusterDocument("two"))
	h.waitService(t, "app", resolvedAt("c1"))
	client := h.agents(t, h.enrol(t, "one").token)
	get := func(known string) *distributorv1.GetDigestResponse {
		t.Helper()
		res, err := client.GetDigest(t.Context(), &distributorv1.GetDigestRequest{Service: "app", KnownDigest: known})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	plan, err := client.GetPlan(t.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	entry := plan.GetPlan().GetServices()[0]
	first := get("")
	want := &distributorv1.GetDigestResponse{
		Digest: plandelta.Sum(entry), PlanVersion: plan.GetPlan().GetVersion(), Uid: entry.GetUid(), SpecDigest: entry.GetSpecDigest(),
		ConfigDigest: entry.GetConfigDigest(), BundleDigests: []string{content.snapshot.GetDigest()}, SyncRequest: entry.GetSyncRequest(),
	}
	if diff := cmp.Diff(want, first, protocmp.Transform()); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&distributorv1.GetDigestResponse{Digest: first.GetDigest(), Unchanged: true}, get(first.GetDigest()), protocmp.Transform()); diff != "" {
		t.Errorf("known digest (-want +got):\n%s", diff)
	}
	other := serviceDocument("other", "one", "demo", "app")
	other.GetService().Spec.Sync = &fleetv1.SyncOptions{ForceConflicts: true}
	h.apply(t, other)
	if got := get(""); got.GetDigest() != first.GetDigest() || got.GetPlanVersion() == first.GetPlanVersion() {
		t.Errorf("got %v, want the same digest in another plan after another service's change", got)
	}
	h.apply(t, pausedDocument())
	if got := get(first.GetDigest()); got.GetUnchanged() || got.GetDigest() == first.GetDigest() || got.GetSpecDigest() == first.GetSpecDigest() {
		t.Errorf("got %v, want what changed", got)
	}
	stranger := h.agents(t, h.enrol(t, "two").token)
	_, err = stranger.GetDigest(t.Context(), &distributorv1.GetDigestRequest{Service: "app"})
	wantReason(t, err, "NOT_FOUND")
	_, err = client.GetDigest(t.Context(), &distributorv1.GetDigestRequest{Service: "none"})
	wantReason(t, err, "NOT_FOUND")
	_, err = client.GetDigest(t.Context(), &distributorv1.GetDigestRequest{})
	wantReason(t, err, "FIELD_INVALID")
}
