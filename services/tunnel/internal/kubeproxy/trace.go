// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
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
func startSpan(r *http.Request) []trace.SpanStartOption {
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", route),
		attribute.String("url.path", rawPath(r)),
		attribute.String("url.scheme", scheme(r)),
		attribute.String("network.protocol.version", protocolVersion(r)),
		attribute.String("user_agent.original", r.UserAgent()),
	}
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		attributes = append(attributes, attribute.String("client.address", host))
		if n, err := strconv.Atoi(port); err == nil {
			attributes = append(attributes, attribute.Int("client.port", n))
		}
	}
	return []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...)}
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
	span.SetAttributes(
		attribute.String(telemetry.KeyCluster, c.target.cluster),
		attribute.String(telemetry.KeySubject, c.caller.Subject()),
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
