// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package telemetry provides a service's logger, tracer and meter.
//
// Every service has a [Telemetry] of its own, even if several run in one process. One global is
// changed: the OpenTelemetry SDK reports its own problems, such as an endpoint that does not
// answer, through an error handler of the process. The service that started last with an exporter
// logs them.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Telemetry is one service's logger, tracers and meters. It is safe for concurrent use.
type Telemetry struct {
	logger     *slog.Logger
	level      slog.LevelVar
	configured slog.Level
	traces     trace.TracerProvider
	meters     *sdkmetric.MeterProvider
	registry   *prometheus.Registry
	shutdown   []func(context.Context) error
	// exportsTraces is whether the process decides which traces are recorded.
	exportsTraces bool
}

// Start makes the telemetry of the named service, such as "gitcache". The caller owns it and calls
// [Telemetry.Shutdown] at the end.
func Start(ctx context.Context, cfg Config, service string) (*Telemetry, error) {
	res, err := Describe(ctx, service)
	if err != nil {
		return nil, err
	}
	t := &Telemetry{registry: prometheus.NewRegistry()}
	for _, start := range []func(context.Context, Config, *resource.Resource) error{
		t.startTraces, t.startMetrics,
	} {
		if err := start(ctx, cfg, res); err != nil {
			t.Shutdown(ctx)
			return nil, err
		}
	}
	if err := t.startLogs(ctx, cfg, service, res); err != nil {
		t.Shutdown(ctx)
		return nil, err
	}
	if cfg.exportsTraces() || cfg.exportsMetrics() || cfg.exportsLogs() {
		otel.SetErrorHandler(&errorLog{logger: t.logger})
	}
	return t, nil
}

// Noop returns telemetry that records nothing, for tests and for tools that have none. It needs no
// shutdown.
func Noop() *Telemetry {
	return &Telemetry{
		logger:   slog.New(slog.DiscardHandler),
		traces:   sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		meters:   sdkmetric.NewMeterProvider(),
		registry: prometheus.NewRegistry(),
	}
}

// Describe returns the resource of the named service, for providers other than a [Telemetry]'s.
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence, as the standard requires.
func Describe(ctx context.Context, service string) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithAttributes(
			semconv.ServiceNamespace("leat"), semconv.ServiceName(service), semconv.ServiceVersion(app.Version())),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe service: %w", err)
	}
	return res, nil
}

// startTraces makes a provider that gives every request a trace id, for the log and for the next
// service. It records and exports spans only if there is an exporter.
func (t *Telemetry) startTraces(ctx context.Context, cfg Config, res *resource.Resource) error {
	if !cfg.exportsTraces() {
		t.traces = passing{begin: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))}
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("start traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(exporter))
	t.traces, t.exportsTraces = provider, true
	t.shutdown = append(t.shutdown, provider.Shutdown)
	return nil
}

// startMetrics starts /metrics, and the exporter that the standard variables name, if any.
func (t *Telemetry) startMetrics(ctx context.Context, cfg Config, res *resource.Resource) error {
	for _, collector := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := t.registry.Register(collector); err != nil {
			return fmt.Errorf("start metrics: %w", err)
		}
	}
	pull, err := otelprometheus.New(
		otelprometheus.WithRegisterer(t.registry),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
	)
	if err != nil {
		return fmt.Errorf("start metrics: %w", err)
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(pull)}
	if cfg.exportsMetrics() {
		push, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return fmt.Errorf("start metrics: %w", err)
		}
		options = append(options, sdkmetric.WithReader(push))
	}
	t.meters = sdkmetric.NewMeterProvider(options...)
	t.shutdown = append(t.shutdown, t.meters.Shutdown)
	set := instrument.New(t.meters.Meter("github.com/leatdev/leat/internal/runtime/telemetry"))
	set.Int64ObservableGauge("leat.clock.time", "s", "The time of this process's clock, in seconds since 1970.",
		instrument.Value(func() int64 { return time.Now().Unix() }))
	return set.Err()
}

// Unmeasured returns telemetry with the same logger and tracers, whose meters keep nothing. It is for parts that are made
// a second time in a process, and would observe the same gauges. It needs no Shutdown.
func (t *Telemetry) Unmeasured() *Telemetry {
	return &Telemetry{
		logger: t.logger, configured: t.configured, traces: t.traces, exportsTraces: t.exportsTraces,
		meters: sdkmetric.NewMeterProvider(), registry: prometheus.NewRegistry(),
	}
}

// Logger returns the service's logger. It adds trace_id and span_id from the context.
func (t *Telemetry) Logger() *slog.Logger { return t.logger }

// Tracer returns the tracer of a package; the name is its import path.
func (t *Telemetry) Tracer(name string) trace.Tracer { return t.traces.Tracer(name) }

// Meter returns the meter of a package; the name is its import path.
func (t *Telemetry) Meter(name string) metric.Meter { return t.meters.Meter(name) }

// TracerProvider returns the provider, for libraries that make their own tracers.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.traces }

// MeterProvider returns the provider, for libraries that make their own meters.
func (t *Telemetry) MeterProvider() metric.MeterProvider { return t.meters }

// Propagator returns the propagator of trace and baggage between services, in the W3C form.
func (t *Telemetry) Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// OutsidePropagator returns the propagator for calls to the hub of a program that is not part of
// it. Without an exporter it leaves out the traces that the program began itself, because "not
// sampled" in their flags is no decision, and the hub would obey it and record nothing of the call.
// Traces of others are passed on.
func (t *Telemetry) OutsidePropagator() propagation.TextMapPropagator {
	if t.exportsTraces {
		return t.Propagator()
	}
	return undecided{t.Propagator()}
}

// maxScrapes bounds the concurrent scrapes, because each holds its answer in memory. Another one is
// answered 503.
const maxScrapes = 8

// MetricsHandler serves the metrics in the Prometheus and OpenMetrics text forms.
func (t *Telemetry) MetricsHandler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry, EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes})
}

// flushTimeout bounds [Telemetry.Shutdown]. A collector that answers needs milliseconds; one that
// does not answer, for example because it stops at the same time, must not hold up the end of a
// process.
const flushTimeout = time.Second

// Shutdown sends the buffered data and stops the exporters, all at once. It works although ctx has
// ended, and takes at most a second. Data that cannot be sent then is lost, with a warning:
// telemetry does not decide how a program ends. The logger continues to write to its output.
func (t *Telemetry) Shutdown(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	flushing, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	errs := make([]error, len(t.shutdown))
	var group sync.WaitGroup
	for i, stop := range t.shutdown {
		group.Go(func() { errs[i] = stop(flushing) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil && t.logger != nil {
		t.logger.WarnContext(ctx, "telemetry lost at the end", slog.Any("error", err))
	}
}
