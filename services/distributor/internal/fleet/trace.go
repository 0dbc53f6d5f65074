// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// cause is what made plans change: the trace context of a repository's event, if any.
type cause struct {
	traceparent string
}

const traceparentKey = "traceparent"

// startCompute begins the span of one plan's computation, below the event that caused it or else below ctx's own.
func (v *View) startCompute(ctx context.Context, cluster string, why cause) trace.Span {
	if why.traceparent != "" {
		carrier := propagation.MapCarrier{traceparentKey: why.traceparent}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	}
	_, span := v.p.Tracer.Start(ctx, "plan.compute", trace.WithAttributes(attribute.String("leat.cluster", cluster)))
	return span
}

// carry returns the trace context that goes into the plan: the computation's, or the event's where nothing records.
func (c cause) carry(span trace.Span) string {
	if !span.SpanContext().IsValid() {
		return c.traceparent
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier[traceparentKey]
}

var zeroTime time.Time

// now has the precision of the store.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
