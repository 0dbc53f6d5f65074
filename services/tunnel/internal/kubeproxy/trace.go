// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// route is the common part of all requests to clusters.
const route = Prefix + "{cluster}/"

// startSpan describes a request by OpenTelemetry's conventions for HTTP servers. It leaves out the
// query, which holds the commands that people run in their pods. It returns the request with the
// span in its context, and the caller's trace. A request without any trace is returned as it is.
func (h *Handler) startSpan(r *http.Request) (traced *http.Request, parent trace.SpanContext, span trace.Span) {
	ctx := r.Context()
	isTraced := slices.ContainsFunc(h.traceHeaders, func(name string) bool { return len(r.Header[name]) > 0 })
	if isTraced {
		ctx = h.deps.Propagator.Extract(ctx, propagation.HeaderCarrier(r.Header))
		parent = trace.SpanContextFromContext(ctx)
	}
	ctx, span = h.deps.Tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer))
	if isTraced || span.SpanContext().IsValid() {
		r = r.WithContext(ctx)
	}
	if !span.IsRecording() {
		return r, parent, span
	}
	span.SetAttributes(telemetry.ServedRequest(r, route, rawPath(r))...)
	span.SetAttributes(attribute.String("user_agent.original", r.UserAgent()))
	return r, parent, span
}

// endSpan describes how the request ended. An answer that is the caller's fault is not an error of
// the server.
func endSpan(span trace.Span, r *request, answer *response, refused *refusal) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String(telemetry.KeyCluster, r.target.cluster),
		attribute.String(telemetry.KeySubject, r.subject),
		attribute.Int64("http.response.body.size", answer.bytes),
	)
	if answer.status > 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", answer.status))
	}
	why := ""
	if refused != nil {
		why = refused.reason.String()
		span.SetAttributes(attribute.String(telemetry.KeyErrorType, why))
	}
	if answer.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, why)
	}
}
