// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Each hop is a span at either replica, by OpenTelemetry's conventions for HTTP, but without the
// query, which holds the commands that people run in their pods. A request that is not sampled has
// no span, and costs nothing here. Its trace context passes as it is.

// route is the common part of all hops.
const route = Prefix + "/"

// startSpan begins the span of a hop that this replica makes, and announces it to the other one. It
// returns nil if nothing is sampled.
func (c *Client) startSpan(out *http.Request, target relay.Target) trace.Span {
	ctx := out.Context()
	if !trace.SpanFromContext(ctx).IsRecording() {
		return nil
	}
	full := url.URL{Scheme: out.URL.Scheme, Host: out.URL.Host}
	ctx, span := c.tracer.Start(ctx, out.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", out.Method),
		attribute.String("url.full", full.String()+out.URL.Opaque),
		attribute.String("server.address", out.URL.Hostname()),
		attribute.Int("server.port", port(out.URL)),
		attribute.String("network.protocol.version", "2"),
		attribute.String(telemetry.KeyCluster, target.Cluster),
	))
	c.propagator.Inject(ctx, propagation.HeaderCarrier(out.Header))
	return span
}

func port(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// endSpan ends the span of a hop with its answer, or at once when there is none.
func endSpan(ctx context.Context, span trace.Span, res *http.Response, err error) {
	if err != nil {
		fail(span, errorType(ctx, err))
		span.End()
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		fail(span, strconv.Itoa(res.StatusCode))
	}
	res.Body = &tracedBody{ReadCloser: res.Body, span: span}
}

// tracedBody ends a span.
type tracedBody struct {
	io.ReadCloser

	span trace.Span
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			fail(b.span, errorLost)
		}
		b.span.End()
	}
	return n, err
}

// Close implements io.Closer.
func (b *tracedBody) Close() error {
	b.span.End()
	return b.ReadCloser.Close()
}

// startSpan begins the span of a hop that has arrived, below the other replica's. It returns nil if
// that one is not sampled.
func (h *Handler) startSpan(r *http.Request) trace.Span {
	if !sampled(r.Header) {
		return nil
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(r.RequestURI, Prefix), "?")
	attributes := append(telemetry.ServedRequest(r, route, Prefix+path),
		attribute.String(telemetry.KeyCluster, r.Header.Get(headerCluster)))
	ctx := h.deps.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	_, span := h.deps.Tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	return span
}

// sampled reports whether the replica that sends a request records it. It reads the flags of a W3C
// trace context.
func sampled(header http.Header) bool {
	const flags, size = 53, 55 // 00-<32 digits>-<16 digits>-<2 digits>, and what later versions put behind
	parent := header.Get("Traceparent")
	if len(parent) < size {
		return false
	}
	bits, err := strconv.ParseUint(parent[flags:size], 16, 8)
	return err == nil && bits&1 == 1
}

// answered records the agent's answer in a span, which may be nil.
func answered(span trace.Span, status int) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		fail(span, strconv.Itoa(status))
	}
}

// unanswered records in a span why the agent has not answered.
func unanswered(ctx context.Context, span trace.Span, err error) {
	if span == nil {
		return
	}
	_, status, _ := describe(err)
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	fail(span, errorType(ctx, err))
}

func fail(span trace.Span, kind string) {
	span.SetAttributes(attribute.String(telemetry.KeyErrorType, kind))
	span.SetStatus(codes.Error, "")
}

// errorType is one of few words for what has gone wrong.
func errorType(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "canceled"
	case errors.Is(err, relay.ErrNotHere):
		return errorNotHere
	case errors.Is(err, relay.ErrUnreachable):
		return "unreachable"
	}
	code, _, _ := describe(err)
	return code
}
