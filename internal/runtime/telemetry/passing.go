// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// passing is the tracer provider of a service without exporters. It passes an incoming trace
// through unchanged, so the spans of the next service are children of the caller's span, and not of
// a span that was never exported. A request without a trace gets one, for the log and the next
// service.
type passing struct {
	noop.TracerProvider

	begin trace.TracerProvider
}

// Tracer implements trace.TracerProvider.
func (p passing) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return passingTracer{begin: p.begin.Tracer(name, options...)}
}

type passingTracer struct {
	noop.Tracer

	begin trace.Tracer
}

// Start implements trace.Tracer.
func (t passingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if config := trace.NewSpanStartConfig(options...); config.NewRoot() || !trace.SpanContextFromContext(ctx).IsValid() {
		return t.begin.Start(ctx, name, options...)
	}
	return t.Tracer.Start(ctx, name, options...)
}

// undecided is a propagator that sends no trace which this process has begun and does not record.
type undecided struct{ propagation.TextMapPropagator }

// Inject implements propagation.TextMapPropagator.
func (u undecided) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	if sc := trace.SpanContextFromContext(ctx); !sc.IsSampled() && !sc.IsRemote() {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	u.TextMapPropagator.Inject(ctx, carrier)
}
