// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// TraceParams are the collaborators of Traced.
type TraceParams struct {
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
}

// Traced continues the hub's traces over requests for the API server. Each request is a span here,
// whose context is sent to the API server. A trace that the hub does not record is passed on
// unchanged. The handlers of the agent's own calls trace them.
func Traced(next http.Handler, p TraceParams) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isKubernetes := strings.CutPrefix(r.URL.Path, kubernetesPrefix+"/")
		if !isKubernetes || !isRecorded(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx := p.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := p.Tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		r = r.WithContext(ctx)
		p.Propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		span.SetAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("url.path", "/"+path),
			attribute.String("url.scheme", "http"),
			attribute.String("user_agent.original", r.UserAgent()),
		)
		seen := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(seen, r)
		span.SetAttributes(attribute.Int("http.response.status_code", seen.status))
		if seen.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// isRecorded reports whether the sender of a request records its trace, by the request's trace
// context (W3C Trace Context, 3.2.2.5.1). Without a trace context the tracer decides.
func isRecorded(r *http.Request) bool {
	const flags = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-")
	parent := r.Header["Traceparent"]
	if len(parent) != 1 || len(parent[0]) < flags+2 {
		return true
	}
	bits, err := strconv.ParseUint(parent[0][flags:flags+2], 16, 8)
	return err != nil || trace.TraceFlags(bits).IsSampled()
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter. Informational answers may precede the final one.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher. It does nothing if the server cannot flush.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap returns the server's own writer for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
