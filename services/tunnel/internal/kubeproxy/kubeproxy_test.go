// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// everybody is a verifier that takes any token, and an access that allows everything.
type everybody struct{}

func (everybody) Verify(context.Context, string) (identity.Identity, error) {
	return identity.Identity{Kind: identity.KindUser, Name: "ada", Expires: time.Now().Add(time.Hour)}, nil
}

func (everybody) Check(context.Context, policy.Question) (policy.Decision, error) {
	return policy.Decision{Allowed: true, User: "ada"}, nil
}

// brokenSink takes no record.
type brokenSink struct{}

func (brokenSink) Write(context.Context, *audit.Record) error { return errors.New("disk full") }

func newHandler(tb testing.TB, change func(*kubeproxy.Deps)) *kubeproxy.Handler {
	tb.Helper()
	tel := telemetry.Noop()
	deps := kubeproxy.Deps{
		Verifier: everybody{}, Access: everybody{}, Router: router(session.NewTable(session.DefaultLimits())),
		Sink: audit.NewLog(tb.Output()), Logger: tel.Logger(), Tracer: tel.Tracer("test"), Propagator: tel.Propagator(),
		Meter: tel.Meter("test"), RecheckInterval: time.Minute, StallTimeout: time.Minute,
		SessionGrace: time.Minute, Recorder: nil,
	}
	change(&deps)
	handler, err := kubeproxy.NewHandler(deps)
	if err != nil {
		tb.Fatal(err)
	}
	return handler
}

// router knows this replica only.
func router(table *session.Table) *relay.Router {
	return relay.New(relay.Params{Table: table, Logger: slog.New(slog.DiscardHandler)})
}

func serve(handler http.Handler) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/clusters/demo/api", nil)
	req.Header.Set("Authorization", "Bearer token")
	handler.ServeHTTP(recorder, req)
	return recorder
}

func TestDrainingReplicaRefuses(t *testing.T) {
	handler := newHandler(t, func(deps *kubeproxy.Deps) {
		table := session.NewTable(session.DefaultLimits())
		deps.Router = router(table)
		if err := table.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	got := serve(handler)
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Leat-Error-Reason") != "SHUTTING_DOWN" || got.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v, want 503 SHUTTING_DOWN with Retry-After", got.Code, got.Header())
	}
}

func TestRequestWithoutAuditRecordIsNotCarriedOut(t *testing.T) {
	got := serve(newHandler(t, func(deps *kubeproxy.Deps) { deps.Sink = brokenSink{} }))
	if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "audit log") {
		t.Errorf("got %d %s, want 503 that tells why", got.Code, got.Body)
	}
}

// stranger is an access whose distributor refuses the tunnel's own token.
type stranger struct{ everybody }

func (stranger) Check(context.Context, policy.Question) (policy.Decision, error) {
	return policy.Decision{}, fmt.Errorf("ask: %w", connect.NewWireError(connect.CodeUnauthenticated, errors.New("who are you")))
}

func TestRefusedTokenOfTheTunnelIsTheHubsMatter(t *testing.T) {
	t.Parallel()
	got := serve(newHandler(t, func(deps *kubeproxy.Deps) { deps.Access = stranger{} }))
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Leat-Error-Reason") != "HUB_TOKEN_REFUSED" || got.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v, want 503 HUB_TOKEN_REFUSED with Retry-After", got.Code, got.Header())
	}
	if body := got.Body.String(); !strings.Contains(body, "the distributor refuses the token of the tunnel") || strings.Contains(body, "who are you") {
		t.Errorf("got %s, want which part refuses which, in the hub's words", body)
	}
}

func TestMatches(t *testing.T) {
	for uri, want := range map[string]bool{
		"/clusters/demo/api": true, "/clusters/demo": true, "http://hub/clusters/demo/": true,
		"/": false, "/clusters": false, "/x/clusters/demo": false, "/tunnel/v1/connect?/clusters/demo": false,
		"//clusters/demo": false, "/%63lusters/demo": false,
	} {
		if got := kubeproxy.Matches(&http.Request{RequestURI: uri}); got != want {
			t.Errorf("%s: got %v, want %v", uri, got, want)
		}
	}
}
