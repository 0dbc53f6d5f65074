// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package auditotlp_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditotlp"
)

// collect is a collector that keeps what it takes, or refuses.
type collect struct {
	mu      sync.Mutex
	status  int
	records []*logs.LogRecord
	service string
}

func (c *collect) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	var req collector.ExportLogsServiceRequest
	if err != nil || proto.Unmarshal(data, &req) != nil {
		http.Error(w, "malformed", http.StatusBadRequest)
		return
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
		return
	}
	for _, resource := range req.GetResourceLogs() {
		for _, attr := range resource.GetResource().GetAttributes() {
			if attr.GetKey() == "service.name" {
				c.service = attr.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeLogs() {
			c.records = append(c.records, scope.GetLogRecords()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(nil)
}

// plain returns a value as Go has it.
func plain(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		var list []any
		for _, item := range v.ArrayValue.GetValues() {
			list = append(list, plain(item))
		}
		return list
	case *common.AnyValue_KvlistValue:
		pairs := map[string]any{}
		for _, pair := range v.KvlistValue.GetValues() {
			pairs[pair.GetKey()] = plain(pair.GetValue())
		}
		return pairs
	default:
		return nil
	}
}

func record() *audit.Record {
	return &audit.Record{
		Request: audit.Request{
			ID: "1", TraceID: strings.Repeat("0f", 16), Subject: "user:ada", SubjectUID: "u", TokenID: "t", Claims: map[string]string{"run": "1\xff"}, Cluster: "demo",
			Method: "GET", URI: "/api/v1/pods?x=" + strings.Repeat("long", 1000), SourceAddress: "127.0.0.1:1", UserAgent: "k\xff",
			Attributes: audit.Attributes{Verb: "list", APIVersion: "v1", Resource: "pods"},
		},
		Phase: audit.PhaseOutcome, Time: time.Unix(1_800_000_000, 5), Allowed: true, ImpersonatedUser: "ada",
		ImpersonatedGroups: []string{"leat:viewers", "b\xff"}, ImpersonatedUID: "iu",
		ImpersonatedExtra: map[string][]string{"leat.dev/bindings": {"look", "\xff"}}, Connection: "c", Status: 200, BytesIn: 1, BytesOut: 2,
		Duration: 1500 * time.Millisecond, Outcome: audit.OutcomeCompleted,
	}
}

func TestRecordsReachTheCollector(t *testing.T) {
	c := &collect{}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	out, err := auditotlp.New(t.Context(), "tunnel")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	want := record()
	for range 2 { // a second batch must not hold the first
		if n, err := out.WriteBatch(t.Context(), []*audit.Record{want, want}); err != nil || n != 2 {
			t.Fatalf("WriteBatch: got %d, %v, want 2", n, err)
		}
	}
	if len(c.records) != 4 || c.service != "tunnel" {
		t.Fatalf("got %d records of %q, want 4 of the tunnel", len(c.records), c.service)
	}
	got := map[string]any{}
	for _, attr := range c.records[0].GetAttributes() {
		got[attr.GetKey()] = plain(attr.GetValue())
	}
	fields := map[string]any{
		"phase": "outcome", "id": "1", "trace_id": want.TraceID, "subject": "user:ada", "subject_uid": "u", "token_id": "t",
		"claims":  map[string]any{"run": "1\uFFFD"},
		"cluster": "demo", "method": "GET", "uri": want.URI, "verb": "list", "api_group": "", "api_version": "v1",
		"resource": "pods", "subresource": "", "namespace": "", "name": "", "source_address": "127.0.0.1:1", "user_agent": "k\uFFFD",
		"allowed": true, "reason": "", "impersonated_user": "ada", "impersonated_groups": []any{"leat:viewers", "b\uFFFD"},
		"impersonated_uid": "iu", "impersonated_extra": map[string]any{"leat.dev/bindings": []any{"look", "\uFFFD"}},
		"connection": "c", "status": int64(200), "bytes_in": int64(1), "bytes_out": int64(2), "duration_seconds": 1.5,
		"outcome": "completed",
	}
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Errorf("attributes differ (-want +got):\n%s", diff)
	}
	if r := c.records[0]; r.GetTimeUnixNano() != 1_800_000_000_000_000_005 || r.GetEventName() != "leat.audit" || len(r.GetTraceId()) != 16 || r.GetTraceId()[0] != 0x0f {
		t.Errorf("got %v, want time, event and trace of the request", r)
	}
}

func TestCollectorThatRefuses(t *testing.T) {
	c := &collect{status: http.StatusForbidden}
	server := httptest.NewServer(c)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", server.URL)
	out, err := auditotlp.New(t.Context(), "tunnel")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	if n, err := out.WriteBatch(t.Context(), []*audit.Record{record()}); err == nil || n != 0 {
		t.Errorf("got %d, %v, want an error", n, err)
	}
	c.mu.Lock()
	c.status = 0
	c.mu.Unlock()
	if n, err := out.WriteBatch(t.Context(), []*audit.Record{record()}); err != nil || n != 1 || len(c.records) != 1 {
		t.Errorf("got %d, %v, %d records at the collector, want it to take the record now", n, err, len(c.records))
	}
}

func TestCollectorThatDoesNotAnswerEndsWithTheContext(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	out, err := auditotlp.New(t.Context(), "tunnel")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := out.WriteBatch(ctx, []*audit.Record{record()}); err == nil || n != 0 {
		t.Errorf("got %d, %v, want an error", n, err)
	}
}

func TestNoExporterIsRefused(t *testing.T) {
	t.Setenv("OTEL_LOGS_EXPORTER", "none")
	if _, err := auditotlp.New(t.Context(), "tunnel"); err == nil || !strings.Contains(err.Error(), "OTEL_LOGS_EXPORTER") {
		t.Errorf("got %v, want an error that names the variable", err)
	}
}
