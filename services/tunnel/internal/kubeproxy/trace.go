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

// startSpan describes a request as OpenTelemetry's conventions for HTTP servers have it. The query stays out: what people
// run in their pods stands in it.
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

// endSpan says what became of the request. Answers of the caller's own fault are no errors of the server.
func (c *call) endSpan(span trace.Span) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String(telemetry.KeyCluster, c.target.cluster),
		attribute.String(telemetry.KeySubject, c.subject),
		attribute.Int64("http.response.body.size", c.w.bytes),
	)
	if c.w.status > 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", c.w.status))
	}
	if c.reason != "" {
		span.SetAttributes(attribute.String(telemetry.KeyErrorType, c.reason))
	}
	if c.w.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, c.reason)
	}
}

// fault notes an answer of the hub's own.
func (c *call) fault(refused *refusal) {
	c.reason = refused.reason
	c.instruments.reject(c.r.Context(), refused)
}
