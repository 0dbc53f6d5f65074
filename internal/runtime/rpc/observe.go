// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/rpcconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// scope names the tracer and the meter.
const scope = "github.com/leatdev/leat/internal/runtime/rpc"

// observer gives every served call a span and a sample in the histogram of durations, by the
// conventions that otelconnect follows on the client's side. Leat does not use otelconnect on the
// server's side, because calls that are answered from memory cost less than computing their
// attributes each time. observer computes them once for each procedure and outcome. It is safe for
// concurrent use.
type observer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	trusted    bool
	duration   metric.Float64Histogram

	// calls and outcomes are bounded by the procedures that are served, times the protocols and
	// codes there are.
	calls    instrument.Cached[call, []trace.SpanStartOption]
	outcomes instrument.Cached[outcome, []metric.RecordOption]
}

// call determines a span's attributes.
type call struct {
	procedure, protocol string
}

// outcome determines the attributes of a measurement.
type outcome struct {
	call
	code        string
	notModified bool
}

// codeOK is the code of a call that succeeded.
const codeOK = "OK"

func newObserver(t *telemetry.Telemetry, trusted bool) (*observer, error) {
	convention := rpcconv.ServerCallDuration{}
	duration, err := t.Meter(scope).Float64Histogram(convention.Name(),
		metric.WithUnit(convention.Unit()), metric.WithDescription(convention.Description()),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	if err != nil {
		return nil, fmt.Errorf("make histogram: %w", err)
	}
	return &observer{
		tracer: t.Tracer(scope), propagator: t.Propagator(), trusted: trusted, duration: duration,
	}, nil
}

func callOf(spec connect.Spec, peer connect.Peer) call {
	protocol := peer.Protocol
	switch protocol {
	case connect.ProtocolConnect:
		protocol = "connectrpc"
	case connect.ProtocolGRPCWeb:
		protocol = connect.ProtocolGRPC
	}
	return call{procedure: spec.Procedure, protocol: protocol}
}

// begin starts the span. The caller's span becomes its parent if the caller is authenticated: one
// of our own agents, services or people. So a trace continues across hops. An unauthenticated
// caller must not decide about sampling. The returned function ends the span.
func (o *observer) begin(ctx context.Context, of call, header http.Header) (context.Context, func(error)) {
	begun := time.Now()
	if _, known := identity.FromContext(ctx); (known || o.trusted) && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = o.propagator.Extract(ctx, propagation.HeaderCarrier(header))
	}
	ctx, span := o.tracer.Start(ctx, of.method(), o.calls.Get(of, call.spanOptions)...)
	return ctx, func(err error) {
		result := outcomeOf(of, err)
		if span.IsRecording() {
			span.SetAttributes(result.attributes()...)
			span.SetStatus(status(err))
		}
		span.End()
		o.duration.Record(ctx, time.Since(begun).Seconds(), o.outcomes.Get(result, outcome.recordOptions)...)
	}
}

// refused records a call that did not reach its handler.
func (o *observer) refused(r *http.Request, err error) {
	protocol := "connectrpc"
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		protocol = connect.ProtocolGRPC
	}
	result := outcomeOf(call{procedure: r.URL.Path, protocol: protocol}, err)
	o.duration.Record(r.Context(), 0, o.outcomes.Get(result, outcome.recordOptions)...)
}

// method returns the procedure's full name, which is also the span's.
func (c call) method() string { return strings.TrimPrefix(c.procedure, "/") }

func (c call) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{semconv.RPCSystemNameKey.String(c.protocol), semconv.RPCMethodKey.String(c.method())}
}

func (c call) spanOptions() []trace.SpanStartOption {
	return []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(c.attributes()...)}
}

func outcomeOf(of call, err error) outcome {
	switch {
	case err == nil:
		return outcome{call: of, code: codeOK}
	case connect.IsNotModifiedError(err):
		return outcome{call: of, code: codeOK, notModified: true}
	}
	return outcome{call: of, code: strings.ToUpper(connect.CodeOf(err).String())}
}

func (o outcome) attributes() []attribute.KeyValue {
	attributes := append(o.call.attributes(), semconv.RPCResponseStatusCodeKey.String(o.code))
	switch {
	case o.notModified:
		attributes = append(attributes, semconv.HTTPResponseStatusCode(http.StatusNotModified))
	case o.code != codeOK:
		attributes = append(attributes, semconv.ErrorTypeKey.String(o.code))
	}
	return attributes
}

func (o outcome) recordOptions() []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(o.attributes()...))}
}

// status returns an error status only for outcomes that are the server's fault.
func status(err error) (codes.Code, string) {
	failure, failed := errors.AsType[*connect.Error](err)
	if !failed || connect.IsNotModifiedError(err) {
		return codes.Unset, ""
	}
	switch failure.Code() {
	case connect.CodeUnknown, connect.CodeDeadlineExceeded, connect.CodeUnimplemented, connect.CodeInternal,
		connect.CodeUnavailable, connect.CodeDataLoss:
		return codes.Error, failure.Message()
	case connect.CodeCanceled, connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists,
		connect.CodePermissionDenied, connect.CodeResourceExhausted, connect.CodeFailedPrecondition, connect.CodeAborted,
		connect.CodeOutOfRange, connect.CodeUnauthenticated:
	}
	return codes.Unset, ""
}
