// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// trace begins the span of a run. A run that brings what the plan changed continues the trace of the commit or edit that
// the plan names; any other, such as a refresh hours later, begins a trace of its own that links to it.
func (r *run) trace(ctx context.Context, what decide.Action) (context.Context, trace.Span) {
	carrier := propagation.MapCarrier{"traceparent": r.service.Traceparent}
	cause := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	options := []trace.SpanStartOption{trace.WithAttributes(r.attributes()...)}
	switch {
	case !cause.IsValid():
	case what == decide.Apply && r.news:
		ctx = trace.ContextWithRemoteSpanContext(ctx, cause)
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: cause}))
	}
	return r.engine.params.Tracer.Start(ctx, "service."+what.String(), options...)
}

func (r *run) attributes() []attribute.KeyValue {
	var digests, commits []string
	for _, b := range r.service.Bundles {
		digests, commits = append(digests, b.Digest.String()), append(commits, b.Commit)
	}
	return []attribute.KeyValue{
		attribute.String("leat.service", r.unit.name), attribute.String("leat.cluster.uid", r.engine.params.Owner()),
		attribute.StringSlice("leat.digest", digests), attribute.StringSlice("leat.commit", commits),
	}
}
