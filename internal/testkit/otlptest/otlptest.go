// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package otlptest collects the spans that services of a test export.
package otlptest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span, and the name of the service that exported it.
type Span struct {
	*tracev1.Span

	Service string
}

// Of reports whether the span is a direct child of another one.
func (s Span) Of(parent Span) bool {
	return string(s.GetParentSpanId()) == string(parent.GetSpanId()) && string(s.GetTraceId()) == string(parent.GetTraceId())
}

// Collector receives the spans of services, over OTLP/HTTP. It is safe for concurrent use.
type Collector struct {
	mu    sync.Mutex
	spans []Span
}

// Traces returns a collector for the services of this process whose configuration names the
// exporter "otlp". They take the other settings from the process's environment, so the test cannot
// be parallel.
func Traces(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var exported collectorv1.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &exported) != nil {
			t.Errorf("got no spans from %s (%v)", r.URL.Path, err)
		}
		c.add(&exported)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // in milliseconds; the default of 5 s is long for a test
	return c
}

func (c *Collector) add(exported *collectorv1.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range exported.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{Span: span, Service: service})
			}
		}
	}
}

// Spans returns the spans received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}
