// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leatdev/leat/services/agent/internal/uplink"
)

func TestTraceGoesOnToTheAPIServer(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	traced := uplink.Traced(handler(t, http.DefaultTransport), uplink.TraceParams{
		Tracer: provider.Tracer("test"), Propagator: propagation.TraceContext{},
	})
	const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	ask := func(path string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Impersonate-User", "alice")
		request.Header.Set("Traceparent", "00-"+traceID+"-"+parent+"-01")
		recorder := httptest.NewRecorder()
		traced.ServeHTTP(recorder, request)
		return recorder
	}
	var got struct{ Header http.Header }
	if err := json.NewDecoder(ask("/kubernetes/api/v1/pods").Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("got %d spans, want 1", len(ended))
	}
	span := ended[0]
	if want := "00-" + traceID + "-" + span.SpanContext().SpanID().String() + "-01"; got.Header.Get("Traceparent") != want {
		t.Errorf("got traceparent %s at the API server, want %s", got.Header.Get("Traceparent"), want)
	}
	if span.Parent().SpanID().String() != parent || span.Name() != http.MethodGet {
		t.Errorf("got span %s below %s, want GET below the hub's", span.Name(), span.Parent().SpanID())
	}
	attributes := map[string]string{}
	for _, kv := range span.Attributes() {
		attributes[string(kv.Key)] = kv.Value.String()
	}
	if attributes["url.path"] != "/api/v1/pods" || attributes["http.response.status_code"] != "200" {
		t.Errorf("got attributes %v", attributes)
	}
	ask("/leat.agent.v1.AgentService/Diff") // has a handler that traces
	if got := len(spans.Ended()); got != 1 {
		t.Errorf("got %d spans after a call of the agent, want still 1", got)
	}
}

// TestTraceThatNobodyRecords passes the hub's own context to the API server: the agent's would name
// a span that nobody records.
func TestTraceThatNobodyRecords(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	traced := uplink.Traced(handler(t, http.DefaultTransport), uplink.TraceParams{
		Tracer: provider.Tracer("test"), Propagator: propagation.TraceContext{},
	})
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	for _, test := range []struct {
		parent string
		spans  int // so far
	}{{trace + "00", 0}, {trace + "02", 0}, {trace + "03", 1}, {"", 2}, {"nonsense", 3}, {trace + "zz", 4}} {
		request := httptest.NewRequest(http.MethodGet, "/kubernetes/api", nil)
		request.Header.Set("Impersonate-User", "alice")
		if test.parent != "" {
			request.Header.Set("Traceparent", test.parent)
		}
		recorder := httptest.NewRecorder()
		traced.ServeHTTP(recorder, request)
		if got := len(spans.Ended()); got != test.spans {
			t.Errorf("parent %q: got %d spans so far, want %d", test.parent, got, test.spans)
		}
		var got struct{ Header http.Header }
		if err := json.NewDecoder(recorder.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if there := got.Header.Get("Traceparent"); test.spans == 0 && there != test.parent {
			t.Errorf("got traceparent %q at the API server, want %q", there, test.parent)
		}
	}
}

func TestTracedAnswersAreFlushed(t *testing.T) {
	t.Parallel()
	provider := sdktrace.NewTracerProvider()
	traced := uplink.Traced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("event"))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), uplink.TraceParams{Tracer: provider.Tracer("test"), Propagator: propagation.TraceContext{}})
	recorder := httptest.NewRecorder()
	traced.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/kubernetes/x", strings.NewReader("")))
	if !recorder.Flushed || recorder.Body.String() != "event" {
		t.Errorf("got %q, flushed %v", recorder.Body, recorder.Flushed)
	}
}
