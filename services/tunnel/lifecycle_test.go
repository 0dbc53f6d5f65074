// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

func TestAuditRecordsEqualRequests(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo", "leat:viewers")
	h.access.grant("ada", "offline")
	h.agent("demo", echo)
	c := client(t, true)
	for range 10 {
		h.get(c, "ada", "demo", "/api?x=1")
	}
	h.get(c, "eve", "demo", "/secret")
	h.get(c, "ada", "offline", "/")
	h.do(c, h.request(t.Context(), http.MethodPost, "ada", "demo", "/pods", strings.NewReader("12345")))
	const large = 300 << 10
	h.do(c, h.request(t.Context(), http.MethodPut, "ada", "demo", "/pods", strings.NewReader(strings.Repeat("x", large))))
	h.stop()
	if err := <-h.done; err != nil {
		t.Fatal(err)
	}
	h.done <- nil

	decisions, outcomes := map[string]map[string]any{}, map[string]map[string]any{}
	for _, record := range h.audit.records(t) {
		id, _ := record["id"].(string)
		records := decisions
		if record["phase"] == "outcome" {
			records = outcomes
			if _, decided := decisions[id]; !decided {
				t.Errorf("outcome %s before its decision", id)
			}
		}
		if _, twice := records[id]; twice || id == "" {
			t.Errorf("record %q twice or without id: %v", id, record)
		}
		records[id] = record
	}
	if len(decisions) != 14 || len(outcomes) != 13 {
		t.Errorf("got %d decisions and %d outcomes, want 14 and 13", len(decisions), len(outcomes))
	}
	counts := map[string]int{}
	for id, record := range decisions {
		if record["allowed"] == false {
			counts["refused"]++
			if _, carried := outcomes[id]; carried || record["subject"] != "user:eve" || record["reason"] != "ACCESS_DENIED" {
				t.Errorf("refused request: got %v", record)
			}
		}
	}
	for _, record := range outcomes {
		outcome, _ := record["outcome"].(string)
		counts[outcome]++
		if record["method"] == http.MethodPost && (record["bytes_in"] != 5.0 || record["bytes_out"] != 16.0 || record["status"] != 200.0) {
			t.Errorf("POST: got %v, want 5 bytes in and 16 out", record)
		}
		if record["method"] == http.MethodPut && (record["bytes_in"] != float64(large) || record["bytes_out"] != float64(large+len("PUT /pods "))) {
			t.Errorf("PUT: got %v, want %d bytes in, and 10 more out", record, large)
		}
		if outcome == "completed" && (record["impersonated_user"] != "ada" || record["connection"] != "c-demo") {
			t.Errorf("got %v, want it as ada over c-demo", record)
		}
	}
	if counts["refused"] != 1 || counts["failed"] != 1 || counts["completed"] != 12 {
		t.Errorf("got %v, want 1 refused, 1 failed, 12 completed", counts)
	}
}

func TestDistributorDown(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) { cfg.AccessMaxAge = time.Nanosecond }) // every request asks again
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	c := client(t, true)
	if status, _ := h.get(c, "ada", "demo", "/"); status != 200 {
		t.Fatalf("before: got %d, want 200", status)
	}
	h.down()
	if status, body := h.get(c, "ada", "demo", "/"); status != 200 {
		t.Errorf("known person: got %d %s, want 200 by the kept decision", status, body)
	}
	if status, body := h.get(c, "bob", "demo", "/"); status != 503 || !strings.Contains(body, "distributor") {
		t.Errorf("unknown person: got %d %s, want 503 about the distributor", status, body)
	}
	h.agentWith(agenttest.Options{ID: "later", Handler: http.HandlerFunc(echo)}, "demo") // verified by kept keys
	if status, _ := h.get(c, "ada", "demo", "/"); status != 200 {
		t.Errorf("over the later connection: got %d, want 200", status)
	}
}

func TestF25WithdrawnPermissionEndsAWatch(t *testing.T) {
	h := startHub(t, func(cfg *tunnel.Config) {
		cfg.AccessMaxAge, cfg.RecheckInterval = time.Nanosecond, 50*time.Millisecond
	})
	h.access.grant("ada", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	res, err := client(t, true).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", "/api/v1/pods?watch=1", nil))
	if err != nil {
		t.Fatal(err)
	}
	h.access.revoke("ada", "demo")
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("watch ended without an error, want it broken off")
	}
	_ = res.Body.Close()
	await.True(t, "the audit record", func() bool { return strings.Contains(h.audit.String(), `"outcome":"revoked"`) })
}

func TestDrain(t *testing.T) {
	h := startHub(t, drainFor(time.Minute))
	h.access.grant("ada", "demo")
	finish := make(chan struct{})
	agent := h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/api/v1/events" {
			<-r.Context().Done()
			return
		}
		<-finish
		_, _ = io.WriteString(w, "done\n")
	})
	var readers []*bufio.Reader
	for _, path := range []string{"/api/v1/events?watch=true", "/plain"} {
		res, err := client(t, false).Do(h.request(t.Context(), http.MethodGet, "ada", "demo", path, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		reader := bufio.NewReader(res.Body)
		if line, err := reader.ReadString('\n'); err != nil || line != "begun\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		readers = append(readers, reader)
	}
	h.stop()
	if rest, err := io.ReadAll(readers[0]); err != nil || len(rest) != 0 {
		t.Errorf("watch: got %q, %v, want a clean end", rest, err)
	}
	close(finish)
	if rest, err := io.ReadAll(readers[1]); err != nil || string(rest) != "done\n" {
		t.Errorf("plain request: got %q, %v, want it finished", rest, err)
	}
	<-agent.Done()
	if err := <-h.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	h.done <- nil
	if !strings.Contains(h.audit.String(), `"outcome":"drained"`) {
		t.Errorf("no drained watch in the audit log:\n%s", h.audit)
	}
}

func TestConnectRefusals(t *testing.T) {
	h := startHub(t, nil)
	replica := h.agent("avoided", echo).Attached().GetReplica()
	upgrade := func(req *http.Request) {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "leat-tunnel/1")
		req.Header.Set("Leat-Connection-Id", "id")
	}
	for name, tc := range map[string]struct {
		http2  bool
		method string
		token  string
		change func(*http.Request)
		status int
		reason errorsv1.Reason
	}{
		"HTTP/2":      {http2: true, status: 505, reason: errorsv1.Reason_REASON_UNIMPLEMENTED},
		"no upgrade":  {status: 426, reason: errorsv1.Reason_REASON_UNIMPLEMENTED},
		"h2c":         {status: 426, reason: errorsv1.Reason_REASON_UNIMPLEMENTED, change: func(r *http.Request) { upgrade(r); r.Header.Set("Upgrade", "h2c") }},
		"POST":        {method: http.MethodPost, status: 405, reason: errorsv1.Reason_REASON_UNIMPLEMENTED, change: upgrade},
		"no token":    {status: 401, reason: errorsv1.Reason_REASON_TOKEN_INVALID, change: upgrade},
		"bad token":   {status: 401, reason: errorsv1.Reason_REASON_TOKEN_INVALID, change: upgrade, token: "a.b.c"},
		"person":      {status: 403, reason: errorsv1.Reason_REASON_ACCESS_DENIED, change: upgrade, token: h.user("ada")},
		"no id":       {status: 400, reason: errorsv1.Reason_REASON_FIELD_INVALID, token: h.cluster("demo"), change: func(r *http.Request) { upgrade(r); r.Header.Del("Leat-Connection-Id") }},
		"avoided":     {status: 409, reason: errorsv1.Reason_REASON_ALREADY_EXISTS, token: h.cluster("demo"), change: func(r *http.Request) { upgrade(r); r.Header.Set("Leat-Avoid-Replica", "other, "+replica) }},
		"bad version": {status: 400, reason: errorsv1.Reason_REASON_FIELD_INVALID, token: h.cluster("demo"), change: func(r *http.Request) { upgrade(r); r.Header.Set("Leat-Agent-Version", "a b") }},
	} {
		method := tc.method
		if method == "" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.addr+"/tunnel/v1/connect", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.change != nil {
			tc.change(req)
		}
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		res, err := client(t, tc.http2).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		refusal := rpcerr.FromHTTP(res)
		_ = res.Body.Close()
		if res.StatusCode != tc.status || rpcerr.ReasonOf(refusal) != tc.reason {
			t.Errorf("%s: got %d %v, want %d %v", name, res.StatusCode, refusal, tc.status, tc.reason)
		}
		if got, want := res.Header.Get("Upgrade") == "leat-tunnel/1", tc.status == 426 || tc.status == 405; got != want {
			t.Errorf("%s: got Upgrade %q", name, res.Header.Get("Upgrade"))
		}
	}
}

func TestListSessionsNeedsAnAdministrator(t *testing.T) {
	h := startHub(t, nil)
	h.agent("demo", echo)
	h.access.grant("root", "", "leat:admins")
	for token, want := range map[string]connect.Code{
		h.user("ada"):                 connect.CodePermissionDenied,
		h.cluster("demo"):             connect.CodePermissionDenied,
		h.user("root", "leat:admins"): 0,
	} {
		err := listAs(t, h, identity.StaticToken(token))
		if (err == nil) != (want == 0) || err != nil && connect.CodeOf(err) != want {
			t.Errorf("got %v, want code %v", err, want)
		}
	}
}

func listAs(tb testing.TB, h *hub, tokens identity.TokenSource) error {
	tb.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: "http://" + h.addr, Tokens: tokens, Telemetry: telemetry.Noop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.HTTP.CloseIdleConnections)
	_, err = tunnelv1connect.NewTunnelServiceClient(client.HTTP, client.BaseURL, client.Options...).ListSessions(tb.Context(), nil)
	return err
}
