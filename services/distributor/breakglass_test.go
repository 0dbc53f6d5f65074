// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/distributor"
)

// breakGlass returns a token of an emergency at a hub that runs.
func (h *hub) breakGlass(t *testing.T, change ...func(*distributor.BreakGlassConfig)) (token string, err error) {
	t.Helper()
	var out bytes.Buffer
	cfg := distributor.BreakGlassConfig{
		StoreConfig: storeOf(h.cfg), Telemetry: telemetry.Config{LogOutput: t.Output()}, Audit: auditout.Config{Outputs: []string{"none"}},
		Reason: "OPS-9: the provider is down", Lifetime: time.Hour, Stdout: &out, Messages: t.Output(),
	}
	for _, f := range change {
		f(&cfg)
	}
	err = distributor.BreakGlass(t.Context(), cfg)
	return strings.TrimSpace(out.String()), err
}

// TestBreakGlass lets a person in with the files of the hub alone. Everything that they do is on
// record, including reads, and counted.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	internal, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := startHub(t, func(c *distributor.Config) { c.Serve.InternalListener = internal })
	token, err := h.breakGlass(t)
	if err != nil {
		t.Fatal(err)
	}
	emergency, admin := h.fleet(t, token), h.fleet(t, adminToken)
	if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), emergency, &fleetv1.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.Get[*fleetv1.User](t.Context(), emergency, "break-glass"); err != nil {
		t.Fatal(err)
	}
	stream, err := emergency.Watch(t.Context(), &fleetv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	if _, err := fleetcalls.Create(t.Context(), emergency, &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "one"}}); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, r := range auditOf(t, admin, &fleetv1.ListAuditRecordsRequest{Subject: "user:break-glass"}) {
		if r.GetSourceAddress() == "" || r.GetTokenId() == "" || r.GetOutcome() != "OK" {
			t.Errorf("a record lacks something: %v", r)
		}
		got = append(got, r.GetVerb()+" "+r.GetKind()+" "+r.GetName())
	}
	if text, want := strings.Join(got, ", "), "create Cluster one, watch Call , get Call break-glass, list Call "; text != want {
		t.Errorf("got records %q, want %q", text, want)
	}
	var issued []string
	for _, r := range auditOf(t, admin, &fleetv1.ListAuditRecordsRequest{Kind: "Token"}) {
		if strings.Contains(r.GetReason(), "OPS-9") {
			issued = append(issued, r.GetVerb())
		}
	}
	if len(issued) != 1 || issued[0] != "create" {
		t.Errorf("got %v, want one record that the token was made, and why", issued)
	}
	if calls, _ := sampleOf(t, "http://"+internal.Addr().String()+"/metrics", "leat_distributor_break_glass_calls_total{}"); calls != 4 {
		t.Errorf("got %v calls counted, want 4", calls)
	}

	tokens, err := admin.ListTokens(t.Context(), &fleetv1.ListTokensRequest{User: "break-glass"})
	if err != nil || len(tokens.GetTokens()) != 1 {
		t.Fatalf("got %v, %v, want one token", tokens, err)
	}
	if left := time.Until(tokens.GetTokens()[0].GetExpireTime().AsTime()); left <= 0 || left > time.Hour {
		t.Errorf("the token ends in %v, want within the hour", left)
	}
	second, err := h.breakGlass(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: tokens.GetTokens()[0].GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), emergency, &fleetv1.ListRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("got %v with a deleted token, want it refused", err)
	}
	if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, second), &fleetv1.ListRequest{}); err != nil {
		t.Errorf("the token of another emergency ended too: %v", err)
	}
}

// TestSecBreakGlassIsOnRecordFirst has an audit log that takes nothing, other keys than the hub's,
// and settings without a reason or with a long life: no token is given.
func TestSecBreakGlassIsOnRecordFirst(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	for name, change := range map[string]func(*distributor.BreakGlassConfig){
		"an audit log that is full": func(c *distributor.BreakGlassConfig) {
			c.Audit = auditout.Config{Outputs: []string{"file"}, File: "/dev/full", FailClosed: true}
		},
		"no reason":        func(c *distributor.BreakGlassConfig) { c.Reason = " " },
		"two lines":        func(c *distributor.BreakGlassConfig) { c.Reason = "a\nb" },
		"a long reason":    func(c *distributor.BreakGlassConfig) { c.Reason = strings.Repeat("a", 501) },
		"a day":            func(c *distributor.BreakGlassConfig) { c.Lifetime = 24 * time.Hour },
		"no life":          func(c *distributor.BreakGlassConfig) { c.Lifetime = -time.Hour },
		"keys of somebody": func(c *distributor.BreakGlassConfig) { c.Service.Secret = "another secret of thirty-two bytes or more" },
	} {
		if token, err := h.breakGlass(t, change); err == nil || token != "" {
			t.Errorf("%s: got %q, %v, want an error", name, token, err)
		}
	}
	tokens, err := h.fleet(t, adminToken).ListTokens(t.Context(), &fleetv1.ListTokensRequest{User: "break-glass"})
	if err != nil || len(tokens.GetTokens()) != 0 {
		t.Errorf("got %v, %v, want no tokens", tokens, err)
	}
}

// TestBreakGlassPage runs the commands of the page.
func TestBreakGlassPage(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "break-glass.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(string(page)) {
		args := strings.Fields(line)
		if len(args) < 2 || args[0] != "distributor" || args[1] != "break-glass" {
			continue
		}
		environment := hubkeys.Env("distributor", map[string]string{
			"LEAT_DISTRIBUTOR_DATABASE_URL": h.cfg.DatabaseURL, "LEAT_DISTRIBUTOR_AUDIT_OUTPUT": "none",
		})
		set := config.New("distributor", func(name string) (string, bool) {
			value, ok := environment[name]
			return value, ok
		})
		var out bytes.Buffer
		b := distributor.BreakGlassConfig{Stdout: &out, Messages: t.Output()}
		b.Bind(set)
		code := app.Execute(t.Context(), app.Params{
			Program: "distributor", Args: args[2:], Settings: set, Stdout: t.Output(), Stderr: t.Output(),
			Run: func(ctx context.Context) error { return distributor.BreakGlass(ctx, b) },
		})
		if code != 0 {
			t.Fatalf("%s: got code %d, want 0", line, code)
		}
		if _, err := fleetcalls.List[*fleetv1.Cluster](t.Context(), h.fleet(t, strings.TrimSpace(out.String())), &fleetv1.ListRequest{}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		ran++
	}
	if ran != 2 {
		t.Errorf("got %d commands on the page, want 2", ran)
	}
}
