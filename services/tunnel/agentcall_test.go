// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	agentv1 "github.com/leatdev/leat/gen/go/leat/agent/v1"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// talker is an agent that answers its own calls, and keeps the headers that they came with.
type talker struct {
	agentv1connect.UnimplementedAgentServiceHandler

	events chan string

	mu      sync.Mutex
	headers []http.Header
}

func (a *talker) note(ctx context.Context) {
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.headers = append(a.headers, call.RequestHeader())
	}
}

func (a *talker) Reconcile(ctx context.Context, r *agentv1.ReconcileRequest) (*agentv1.ReconcileResponse, error) {
	a.note(ctx)
	if r.GetService() == "unknown" {
		return nil, rpcerr.NotFound("service", "unknown")
	}
	return &agentv1.ReconcileResponse{}, nil
}

func (a *talker) Diff(ctx context.Context, r *agentv1.DiffRequest) (*agentv1.DiffResponse, error) {
	a.note(ctx)
	return &agentv1.DiffResponse{Objects: []*agentv1.ObjectDiff{{Unified: "diff of " + r.GetService()}}}, nil
}

func (a *talker) GetInventory(ctx context.Context, _ *agentv1.GetInventoryRequest) (*agentv1.GetInventoryResponse, error) {
	a.note(ctx)
	return &agentv1.GetInventoryResponse{NextPageToken: "more"}, nil
}

func (a *talker) QueryMetrics(ctx context.Context, _ *agentv1.QueryMetricsRequest) (*agentv1.QueryMetricsResponse, error) {
	a.note(ctx)
	return &agentv1.QueryMetricsResponse{LeftOut: 1}, nil
}

func (a *talker) WatchEvents(
	ctx context.Context, _ *agentv1.WatchEventsRequest, stream *connect.ServerStream[agentv1.WatchEventsResponse],
) error {
	a.note(ctx)
	if err := stream.Send(&agentv1.WatchEventsResponse{Message: "hello"}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message := <-a.events:
			if err := stream.Send(&agentv1.WatchEventsResponse{Message: message}); err != nil {
				return err
			}
		}
	}
}

// startTalker connects an agent of that kind for the cluster demo.
func startTalker(h *hub) *talker {
	h.tb.Helper()
	a := &talker{events: make(chan string)}
	mux := http.NewServeMux()
	mux.Handle(agentv1connect.NewAgentServiceHandler(a))
	h.agentWith(agenttest.Options{ID: "c-demo", Handler: http.HandlerFunc(echo), Agent: mux}, "demo")
	return a
}

// agentOf is a client of a cluster's agent, as leat makes it.
func (h *hub) agentOf(token, cluster string) agentv1connect.AgentServiceClient {
	h.tb.Helper()
	c, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: "http://" + h.addr + "/clusters/" + cluster, Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop(),
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(c.HTTP.CloseIdleConnections)
	return agentv1connect.NewAgentServiceClient(c.HTTP, c.BaseURL, c.Options...)
}

// calls are all calls of an agent; each returns the error.
func calls(ctx context.Context, c agentv1connect.AgentServiceClient) map[string]error {
	_, reconcile := c.Reconcile(ctx, &agentv1.ReconcileRequest{Service: "shop"})
	_, diff := c.Diff(ctx, &agentv1.DiffRequest{Service: "shop"})
	_, inventory := c.GetInventory(ctx, &agentv1.GetInventoryRequest{Service: "shop"})
	_, figures := c.QueryMetrics(ctx, &agentv1.QueryMetricsRequest{Service: "shop", Metric: agentv1.Metric_METRIC_CPU})
	events := func() error {
		stream, err := c.WatchEvents(ctx, &agentv1.WatchEventsRequest{})
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		if stream.Receive() {
			return nil
		}
		return stream.Err()
	}()
	return map[string]error{"Reconcile": reconcile, "Diff": diff, "GetInventory": inventory, "QueryMetrics": figures, "WatchEvents": events}
}

// TestWhoMayCallTheAgent makes every call as members of every role, and of none.
func TestWhoMayCallTheAgent(t *testing.T) {
	h := startHub(t, nil)
	agent := startTalker(h)
	for user, groups := range map[string][]string{
		"admin": {"leat:admins"}, "operator": {"x", "leat:operators"}, "viewer": {"leat:viewers"}, "other": {"leat:admin", "admins"}, "none": nil,
	} {
		h.access.grant(user, "demo", groups...)
	}
	looking, acting := "GetInventory QueryMetrics WatchEvents", "GetInventory QueryMetrics WatchEvents Reconcile Diff"
	for user, may := range map[string]string{"admin": acting, "operator": acting, "viewer": looking, "other": "", "none": "", "stranger": ""} {
		for name, err := range calls(t.Context(), h.agentOf(h.user(user), "demo")) {
			switch allowed := strings.Contains(may, name); {
			case allowed && err != nil:
				t.Errorf("%s by %s: got %v, want it carried out", name, user, err)
			case !allowed && (connect.CodeOf(err) != connect.CodePermissionDenied || rpcerr.ReasonOf(err).String() != "REASON_ACCESS_DENIED"):
				t.Errorf("%s by %s: got %v, want ACCESS_DENIED", name, user, err)
			}
		}
	}
	if got := len(agent.headers); got != 2*5+3 {
		t.Errorf("the agent got %d calls, want 13: what is refused does not reach it", got)
	}
	for name, err := range calls(t.Context(), h.agentOf("garbage", "demo")) {
		if rpcerr.ReasonOf(err).String() != "REASON_TOKEN_INVALID" || connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s with a bad token: got %v, want TOKEN_INVALID", name, err)
		}
	}
	for name, err := range calls(t.Context(), h.agentOf(h.cluster("demo"), "demo")) {
		if rpcerr.ReasonOf(err).String() != "REASON_ACCESS_DENIED" {
			t.Errorf("%s by an agent: got %v, want ACCESS_DENIED", name, err)
		}
	}
}

// TestAgentLearnsTheCallerFromTheHubOnly has a caller claim another identity.
func TestAgentLearnsTheCallerFromTheHubOnly(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:operators")
	agent := startTalker(h)
	for _, http2 := range []bool{false, true} {
		req := h.request(t.Context(), http.MethodPost, "ada", "demo", agentv1connect.AgentServiceDiffProcedure, strings.NewReader(`{"service":"shop"}`))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Leat-Subject": "user:root", "leat_subject": "user:root", "Impersonate-User": "root", "Cookie": "a=b",
		} {
			req.Header.Set(name, value)
		}
		if res, body := h.do(client(t, http2), req); res.StatusCode != http.StatusOK || !strings.Contains(body, "diff of shop") {
			t.Errorf("http2=%v: got %d %s", http2, res.StatusCode, body)
		}
	}
	for _, header := range agent.headers {
		if got := header.Values("Leat-Subject"); len(got) != 1 || got[0] != "user:ada" {
			t.Errorf("got subjects %v, want user:ada alone", got)
		}
		for name := range header {
			if strings.HasPrefix(name, "Impersonate-") || name == "Authorization" || name == "Cookie" || strings.EqualFold(name, "leat_subject") {
				t.Errorf("the agent got the header %s", name)
			}
		}
	}
}

// TestAgentCallsAreRecorded wants a decision and an outcome for a request that is carried out, and
// a decision for one that is not.
func TestAgentCallsAreRecorded(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:viewers")
	startTalker(h)
	client := h.agentOf(h.user("ada"), "demo")
	_, _ = client.GetInventory(t.Context(), &agentv1.GetInventoryRequest{Service: "shop"})
	_, _ = client.Reconcile(t.Context(), &agentv1.ReconcileRequest{Service: "shop"})
	var records []map[string]any
	await.True(t, "the audit log", func() bool { records = h.audit.records(t); return len(records) == 3 })
	got := map[string]bool{}
	for _, r := range records {
		got[fmt.Sprint(r["phase"], " ", r["subject"], " ", r["uri"], " ", r["allowed"], " ", r["reason"])] = true
	}
	for _, want := range []string{
		"decision user:ada /leat.agent.v1.AgentService/GetInventory true ", "outcome user:ada /leat.agent.v1.AgentService/GetInventory true ",
		"decision user:ada /leat.agent.v1.AgentService/Reconcile false ACCESS_DENIED",
	} {
		if !got[want] {
			t.Errorf("got %v, want %q among them", got, want)
		}
	}
}

func TestAgentCallsThatCannotBeCarriedOut(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:admins")
	for name, err := range calls(t.Context(), h.agentOf(h.user("ada"), "demo")) {
		if wait, ok := rpcerr.RetryDelay(err); connect.CodeOf(err) != connect.CodeUnavailable || rpcerr.ReasonOf(err).String() != "REASON_AGENT_OFFLINE" || !ok || wait <= 0 {
			t.Errorf("%s: got %v, want AGENT_OFFLINE, and when to try again", name, err)
		}
	}
	startTalker(h)
	_, err := h.agentOf(h.user("ada"), "demo").Reconcile(t.Context(), &agentv1.ReconcileRequest{Service: "unknown"})
	if connect.CodeOf(err) != connect.CodeNotFound || rpcerr.ReasonOf(err).String() != "REASON_NOT_FOUND" {
		t.Errorf("the agent's own error: got %v, want NOT_FOUND as it was", err)
	}
	for _, path := range []string{"/leat.agent.v1.AgentService/Shutdown", "/leat.agent.v1.AgentService/", "/leat.agent.v1.AgentService/Diff/x"} {
		if status, body := h.get(client(t, true), "ada", "demo", path); status != http.StatusNotFound && status != http.StatusNotImplemented || !strings.Contains(body, "unimplemented") {
			t.Errorf("%s: got %d %s, want no such call", path, status, body)
		}
	}
}

// TestEventsArriveOneByOne reads each event before the next is made, and ends with the hub.
func TestEventsArriveOneByOne(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:viewers")
	agent := startTalker(h)
	stream, err := h.agentOf(h.user("ada"), "demo").WatchEvents(t.Context(), &agentv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	for i := range 5 {
		want := fmt.Sprint("event ", i)
		agent.events <- want
		if !stream.Receive() || stream.Msg().GetMessage() != want {
			t.Fatalf("got %v, %v, want %q", stream.Msg(), stream.Err(), want)
		}
	}
	h.stop()
	if stream.Receive() || stream.Err() == nil || errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("got %v, %v, want the stream to end with an error: it was cut", stream.Msg(), stream.Err())
	}
}
