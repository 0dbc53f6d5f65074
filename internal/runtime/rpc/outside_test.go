// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// headers records the headers of requests, and answers none.
type headers struct{ last http.Header }

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	h.last = r.Header.Clone()
	return nil, context.Canceled
}

// TestTheHubDecidesAboutTracesFromOutside has programs with and without an exporter call the hub,
// whose tracer obeys the decision of its caller, as OpenTelemetry's does unless it is configured
// otherwise.
func TestTheHubDecidesAboutTracesFromOutside(t *testing.T) {
	silent, err := telemetry.Start(t.Context(), telemetry.Config{LogOutput: t.Output()}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	exporting, err := telemetry.Start(t.Context(), telemetry.Config{LogOutput: t.Output(), TracesExporter: "console"}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exporting.Shutdown(t.Context()) })
	hub := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	t.Cleanup(func() { _ = hub.Shutdown(context.WithoutCancel(t.Context())) })

	remote := func(flags trace.TraceFlags) context.Context {
		return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		}))
	}
	const taken = "00-01000000000000000000000000000000-0100000000000000-"
	for name, test := range map[string]struct {
		ctx       context.Context
		telemetry *telemetry.Telemetry
		isInHub   bool
		// sent is the header; "own": of a trace that the program began.
		sent     string
		recorded bool
	}{
		"leat":                           {ctx: t.Context(), telemetry: telemetry.Noop(), recorded: true},
		"an agent without an exporter":   {ctx: t.Context(), telemetry: silent, recorded: true},
		"its part that is made twice":    {ctx: t.Context(), telemetry: silent.Unmeasured(), recorded: true},
		"an agent that records nothing":  {ctx: t.Context(), telemetry: exporting, sent: "own"},
		"such a part of it":              {ctx: t.Context(), telemetry: exporting.Unmeasured(), sent: "own"},
		"a commit that the hub records":  {ctx: remote(trace.FlagsSampled), telemetry: silent, sent: taken + "01", recorded: true},
		"a commit that it does not":      {ctx: remote(0), telemetry: silent, sent: taken + "00"},
		"a service of the hub, for logs": {ctx: t.Context(), telemetry: silent, isInHub: true, sent: "own"},
	} {
		t.Run(name, func(t *testing.T) {
			sent := &headers{}
			client, err := rpc.NewClient(rpc.ClientParams{BaseURL: "http://hub.example", Telemetry: test.telemetry, IsOutside: !test.isInHub, Transport: sent})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = gitcachev1connect.NewGitCacheServiceClient(client.HTTP, client.BaseURL, client.Options...).
				GetRepository(test.ctx, &gitcachev1.GetRepositoryRequest{})
			got := sent.last.Get("traceparent")
			if isOwn := got != "" && got[:len(taken)] != taken; test.sent == "own" && !isOwn || test.sent != "own" && got != test.sent {
				t.Errorf("sent the trace %q, want %q", got, test.sent)
			}
			ctx := propagation.TraceContext{}.Extract(context.WithoutCancel(t.Context()), propagation.HeaderCarrier(sent.last))
			_, span := hub.Tracer("hub").Start(ctx, "call")
			defer span.End()
			if span.IsRecording() != test.recorded {
				t.Errorf("the hub records: %v, want %v", span.IsRecording(), test.recorded)
			}
		})
	}
}
