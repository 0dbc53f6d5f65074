// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/telemetry"
)

// route is what all requests to clusters have in common.
const route = Prefix + "{cluster}/"

// startSpan describes a request by OpenTelemetry's conventions for HTTP servers. It leaves out the query,
// which holds the commands that people run in their pods.
func (h *Handler) startSpan(ctx context.Context, r *http.Request) (context.Context, trace.Span) {
	ctx, span := h.deps.Tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", route),
		attribute.String("url.path", rawPath(r)),
		attribute.String("url.scheme", scheme(r)),
		attribute.String("network.protocol.version", protocolVersion(r)),
		attribute.String("user_agent.original", r.UserAgent()),
	)
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		span.SetAttributes(attribute.String("client.address", host))
		if n, err := strconv.Atoi(port); err == nil {
			span.SetAttributes(attribute.Int("client.port", n))
		}
	}
	return ctx, span
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

func protocolVersion(r *http.Request) string {
	if r.ProtoMajor >= 2 {
		return strconv.Itoa(r.ProtoMajor)
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}

// endSpan describes how the request ended. An answer that is the caller's fault is not an error of the
// server.
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
