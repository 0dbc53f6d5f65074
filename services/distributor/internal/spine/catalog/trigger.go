// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const traceparentKey = "traceparent"

// maxFetch is the longest fetch that an agent may report, and lastYear the last year that JSON can name.
const (
	maxFetch = 24 * time.Hour
	lastYear = 9999
)

// Trigger is what brought a change: its trace, and the fetch that found it. It is immutable. Nil: nothing is known.
type Trigger struct {
	// Traceparent is a W3C trace context. Empty: not traced.
	Traceparent string
	// FetchBegan is when gitcache began the fetch. Zero: a document's change brought it.
	FetchBegan time.Time
	// Fetch is how long the fetch took.
	Fetch time.Duration
}

// Follow returns the context of work that the trigger caused: spans that begin in it belong to the trigger's trace.
func (t *Trigger) Follow(ctx context.Context) context.Context {
	if t == nil || t.Traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparentKey: t.Traceparent})
}

// Within returns the trigger of what the span causes: its trace context is the span's. Where nothing records, it is the
// trigger itself.
func (t *Trigger) Within(span trace.Span) *Trigger {
	if !span.SpanContext().IsValid() {
		return t
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	next := Trigger{}
	if t != nil {
		next = *t
	}
	next.Traceparent = carrier[traceparentKey]
	return &next
}

// TraceID returns the trace as 32 hexadecimal digits, or "" if there is none.
func (t *Trigger) TraceID() string {
	if id := trace.SpanContextFromContext(t.Follow(context.Background())).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}

// knownFetch returns the fetch, or zeros if there was none, or if it is one that no hub has told an agent: an agent may
// report any.
func (t *Trigger) knownFetch() (began time.Time, took time.Duration) {
	if t == nil || t.Fetch < 0 || t.Fetch > maxFetch || t.FetchBegan.Unix() <= 0 || t.FetchBegan.Year() > lastYear {
		return time.Time{}, 0
	}
	return t.FetchBegan, t.Fetch
}
