// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// TestTraceAndMetrics follows one failing call from a client's span into the server's log and
// metrics.
func TestTraceAndMetrics(t *testing.T) {
	t.Parallel()
	log := new(buffer)
	tel, err := telemetry.Start(t.Context(), telemetry.Config{LogOutput: log}, "gitcache")
	if err != nil {
		t.Fatalf("start telemetry: %v", err)
	}
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: tel, Logger: tel.Logger(), Verifier: verifierFunc(acceptGood), Public: nil,
	})
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	var carried string
	mux := http.NewServeMux()
	path, handler := gitcachev1connect.NewGitCacheServiceHandler(both(func(ctx context.Context) error {
		carried = baggage.FromContext(ctx).Member("who").Value()
		return io.ErrUnexpectedEOF
	}), server.Options()...)
	mux.Handle(path, server.Guard(handler))
	url, transport := rpctest.Serve(t, mux)
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: url, Tokens: identity.StaticToken("good"), Telemetry: telemetry.Noop(), CAPEM: nil, Transport: transport.Transport,
	})
	if err != nil {
		t.Fatalf("new client: %v", err)
	}
	member, err := baggage.NewMember("who", "test")
	if err != nil {
		t.Fatalf("make baggage: %v", err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatalf("make baggage: %v", err)
	}
	ctx, span := telemetry.Noop().Tracer("test").Start(baggage.ContextWithBaggage(t.Context(), bag), "call")
	defer span.End()
	_, err = gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...).
		GetRepository(ctx, &gitcachev1.GetRepositoryRequest{})
	if id := rpcerr.Metadata(err)["error_id"]; id == "" || !strings.Contains(log.String(), id) {
		t.Errorf("got %v and log %s, want the error id in both", err, log)
	}
	if traceID := trace.SpanContextFromContext(ctx).TraceID().String(); !strings.Contains(log.String(), traceID) {
		t.Errorf("got log %s, want the client's trace id %s in it", log, traceID)
	}
	if carried != "test" {
		t.Errorf("baggage: got %q, want test", carried)
	}
	recorder := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	metrics := recorder.Body.String()
	if !strings.Contains(metrics, "rpc_server_") || !strings.Contains(metrics, "GetRepository") {
		t.Errorf("got metrics %s, want those of the call", metrics)
	}
	for _, unbounded := range []string{"network_peer", "error_id", "leat_test"} {
		if strings.Contains(metrics, unbounded) {
			t.Errorf("metrics carry %s, which has no bound", unbounded)
		}
	}
	tel.Logger().InfoContext(ctx, "end", slog.Int("bytes", len(metrics)))
}
