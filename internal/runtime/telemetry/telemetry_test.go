// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/offline"
)

func TestMain(m *testing.M) { os.Exit(offline.Run(m)) }

func start(t *testing.T, cfg telemetry.Config, service string) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), cfg, service)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return tel
}

// fromEnvironment parses a Config as a service does.
func fromEnvironment(t *testing.T, args ...string) telemetry.Config {
	t.Helper()
	var cfg telemetry.Config
	set := config.FromOS("test")
	cfg.Bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatalf("parse: %v", err)
	}
	return cfg
}

func metrics(tel *telemetry.Telemetry) string {
	recorder := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}

// collector is an OTLP endpoint that records its requests.
type collector struct {
	mu       sync.Mutex
	received map[string]string
}

func newCollector(t *testing.T) (*collector, string) {
	t.Helper()
	c := &collector{received: make(map[string]string)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received[r.URL.Path] += string(body)
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

func (c *collector) body(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[path]
}

// emit emits one span, one measurement and one log record.
func emit(t *testing.T, tel *telemetry.Telemetry) {
	t.Helper()
	ctx, span := tel.Tracer("test").Start(t.Context(), "the span")
	counter, err := tel.Meter("test").Int64Counter("leat.test.count")
	if err != nil {
		t.Fatalf("make counter: %v", err)
	}
	counter.Add(ctx, 1)
	tel.Logger().InfoContext(ctx, "the line")
	span.End()
}

func TestLogCarriesServiceAndTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tel := start(t, telemetry.Config{LogOutput: &out}, "gitcache")
	ctx, span := tel.Tracer("test").Start(t.Context(), "work")
	tel.Logger().With(slog.String("a", "1")).WithGroup("").WithGroup("g").With(slog.String("c", "3")).
		InfoContext(ctx, "in a span", slog.String("b", "2"))
	span.End()
	tel.Logger().DebugContext(ctx, "below the level")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("want one line of JSON, got %q: %v", out.String(), err)
	}
	if line["service.name"] != "gitcache" || line["msg"] != "in a span" || line["a"] != "1" {
		t.Errorf("got %v, want service, message and attributes", line)
	}
	if traceID := span.SpanContext().TraceID().String(); line["trace_id"] != traceID || line["span_id"] == nil {
		t.Errorf("got %v, want trace_id %s at the top", line, traceID)
	}
	if diff := cmp.Diff(map[string]any{"b": "2", "c": "3"}, line["g"]); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	out.Reset()
	tel.Logger().WithGroup("g").InfoContext(t.Context(), "outside of a span")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("got %s, want no trace id", out.String())
	}
}

func TestLogFormatAndLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tel := start(t, telemetry.Config{LogOutput: &out, LogFormat: "text", LogLevel: "debug"}, "test")
	tel.Logger().DebugContext(t.Context(), "hello")
	if !strings.Contains(out.String(), "level=DEBUG msg=hello service.name=test") {
		t.Errorf("got %q, want a line of text", out.String())
	}
	for _, cfg := range []telemetry.Config{{LogLevel: "loud"}, {LogFormat: "xml"}} {
		if _, err := telemetry.Start(t.Context(), cfg, "test"); err == nil {
			t.Errorf("%+v: got no error", cfg)
		}
	}
}

// TestClock requires that each service tells the time of its clock, as a number of seconds.
func TestClock(t *testing.T) {
	t.Parallel()
	before := time.Now().Unix()
	text := metrics(start(t, telemetry.Config{LogOutput: io.Discard}, "test"))
	_, line, _ := strings.Cut(text, "\nleat_clock_time_seconds{")
	_, number, _ := strings.Cut(strings.SplitN(line, "\n", 2)[0], "} ")
	if got, err := strconv.ParseFloat(number, 64); err != nil || int64(got) < before || int64(got) > time.Now().Unix() {
		t.Errorf("got %q, %v, want the time between %d and now", number, err, before)
	}
}

// TestUnmeasured counts by telemetry that keeps no metrics beside the one that does.
func TestUnmeasured(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{LogOutput: io.Discard}, "test")
	emit(t, tel.Unmeasured())
	if got := metrics(tel); strings.Contains(got, "leat_test_count") {
		t.Errorf("got metrics %s, want no counter", got)
	}
	emit(t, tel)
	if got := metrics(tel); !strings.Contains(got, "leat_test_count_total") {
		t.Errorf("got metrics %s, want the counter", got)
	}
}

func TestEachServiceHasItsOwn(t *testing.T) {
	t.Parallel()
	globals := [...]any{otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetTextMapPropagator(), slog.Default()}
	first := start(t, telemetry.Config{LogOutput: io.Discard}, "first")
	second := start(t, telemetry.Config{LogOutput: io.Discard}, "second")
	emit(t, first)
	if got := metrics(first); !strings.Contains(got, "leat_test_count_total") || !strings.Contains(got, `service_name="first"`) {
		t.Errorf("first: got metrics %s, want its counter and its name", got)
	}
	if got := metrics(second); strings.Contains(got, "leat_test_count") || !strings.Contains(got, `service_name="second"`) {
		t.Errorf("second: got metrics %s, want no counter of the first's", got)
	}
	first.Shutdown(t.Context())
	emit(t, second)
	if got := metrics(second); !strings.Contains(got, "leat_test_count_total") {
		t.Errorf("second after the first was shut down: got metrics %s", got)
	}
	now := [...]any{otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetTextMapPropagator(), slog.Default()}
	if now != globals {
		t.Error("global providers were changed")
	}
}

func TestWithoutAnExporterTracesPassOn(t *testing.T) {
	t.Parallel()
	tel := start(t, telemetry.Config{LogOutput: io.Discard}, "test")
	_, span := tel.Tracer("test").Start(t.Context(), "own")
	if sc := span.SpanContext(); !sc.IsValid() || sc.IsSampled() || span.IsRecording() {
		t.Errorf("own trace: got %+v, want an id and nothing recorded", sc)
	}
	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true})
	remote := trace.ContextWithRemoteSpanContext(t.Context(), sampled)
	ctx, span := tel.Tracer("test").Start(remote, "caller's")
	if sc := span.SpanContext(); sc.TraceID() != sampled.TraceID() || sc.SpanID() != sampled.SpanID() || !sc.IsSampled() || span.IsRecording() {
		t.Errorf("caller's trace: got %+v, want it unchanged: another span would not be exported", sc)
	}
	header := propagation.MapCarrier{}
	tel.Propagator().Inject(ctx, header)
	if want := "00-01000000000000000000000000000000-0100000000000000-01"; header["traceparent"] != want {
		t.Errorf("caller's trace: the next service gets %q, want %q", header["traceparent"], want)
	}
	if _, root := tel.Tracer("test").Start(remote, "new", trace.WithNewRoot()); root.SpanContext().TraceID() == sampled.TraceID() ||
		!root.SpanContext().IsValid() {
		t.Errorf("new trace: got %+v, want a new one", root.SpanContext())
	}
}

func TestStandardVariablesSwitchExportersOn(t *testing.T) {
	tests := []struct {
		name   string
		env    map[string]string
		signal []string
	}{
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, []string{"/v1/traces", "/v1/metrics"}},
		{"one endpoint", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, []string{"/v1/traces"}},
		{
			"logs too",
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_LOGS_EXPORTER": "otlp"},
			[]string{"/v1/traces", "/v1/metrics", "/v1/logs"},
		},
		{
			"some not", map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "prometheus", "OTEL_LOGS_EXPORTER": "otlp",
			}, []string{"/v1/logs"},
		},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			collector, url := newCollector(t)
			for name, value := range tt.env {
				t.Setenv(name, strings.ReplaceAll(value, "URL", url))
			}
			cfg := fromEnvironment(t, "--log-level=info")
			cfg.LogOutput = io.Discard
			tel := start(t, cfg, "gitcache")
			emit(t, tel)
			tel.Shutdown(t.Context())
			for path, content := range map[string]string{"/v1/traces": "the span", "/v1/metrics": "leat.test.count", "/v1/logs": "the line"} {
				body := collector.body(path)
				if want := strings.Contains(strings.Join(tt.signal, " "), path); want != strings.Contains(body, content) {
					t.Errorf("%s: got %d bytes, want %q in them: %t", path, len(body), content, want)
				}
				if body != "" && !strings.Contains(body, "gitcache") {
					t.Errorf("%s: the service's name is missing", path)
				}
			}
		})
	}
}

func TestServiceNameFromTheStandardVariableWins(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	if got := metrics(start(t, telemetry.Config{LogOutput: io.Discard}, "gitcache")); !strings.Contains(got, `service_name="mine"`) {
		t.Errorf("got metrics %s, want the name of the environment", got)
	}
}

func TestUnknownExporterIsAnError(t *testing.T) {
	for _, variable := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "pigeon")
			if _, err := telemetry.Start(t.Context(), fromEnvironment(t), "test"); err == nil {
				t.Error("got no error")
			}
		})
	}
}

func TestBelowTheLevelNothingIsExported(t *testing.T) {
	collector, url := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", url+"/v1/logs")
	cfg := fromEnvironment(t, "--log-level=warn")
	cfg.LogOutput = io.Discard
	tel := start(t, cfg, "test")
	logger := tel.Logger().With(slog.String("a", "1")).WithGroup("g")
	logger.InfoContext(t.Context(), "too quiet")
	logger.WarnContext(t.Context(), "loud enough")
	tel.Shutdown(t.Context())
	if body := collector.body("/v1/logs"); strings.Contains(body, "too quiet") || !strings.Contains(body, "loud enough") {
		t.Errorf("got %q, want the warning alone", body)
	}
}

// TestShutdownTakesASecondAtMost stops two exporters of a collector that does not answer, and one
// that works, although the context of the service has ended.
func TestShutdownTakesASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tel := start(t, telemetry.Config{LogOutput: &out}, "gitcache")
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("the collector does not answer")
		}
		flushed := false
		tel.AtShutdown(silent)
		tel.AtShutdown(func(ctx context.Context) error {
			flushed = ctx.Err() == nil
			return nil
		})
		tel.AtShutdown(silent)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		tel.Shutdown(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("got %v, want one second for all exporters together", took)
		}
		if !flushed {
			t.Error("the exporter that works was not flushed")
		}
		if line := out.String(); !strings.Contains(line, `"level":"WARN"`) || !strings.Contains(line, "the collector does not answer") {
			t.Errorf("got %q, want a warning", line)
		}
	})
}

// TestExportErrorsAreLogged fails an export, as the SDK reports it: with the service's log, and not
// as text between the lines of JSON.
func TestExportErrorsAreLogged(t *testing.T) {
	_, url := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/v1/traces")
	var out bytes.Buffer
	cfg := fromEnvironment(t)
	cfg.LogOutput = &out
	tel := start(t, cfg, "gitcache")
	defer tel.Shutdown(t.Context())
	otel.Handle(errors.New("traces export: connection refused"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["level"] != "WARN" || line["error"] != "traces export: connection refused" {
		t.Errorf("got %q, %v, want one line of JSON with a warning", out.String(), err)
	}
}

// TestExportErrorsAreLoggedOnceAMinute fails every 10 s for an hour.
func TestExportErrorsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		handler := telemetry.NewErrorLog(slog.New(slog.NewTextHandler(&out, nil)))
		for range 6 * 60 {
			handler.Handle(errors.New("traces export: connection refused"))
			<-time.After(10 * time.Second)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 60 || strings.Count(out.String(), "omitted=5") != 59 {
			t.Errorf("got %d lines\n%s\nwant one a minute, with the number of the others", lines, out.String())
		}
	})
}

func TestNoop(t *testing.T) {
	t.Parallel()
	tel := telemetry.Noop()
	emit(t, tel)
	if got := metrics(tel); got != "" && strings.Contains(got, "leat_test") {
		t.Errorf("got metrics %s, want none", got)
	}
	if tel.TracerProvider() == nil || tel.MeterProvider() == nil || len(tel.Propagator().Fields()) == 0 {
		t.Error("a provider is missing")
	}
	tel.Shutdown(t.Context())
}
