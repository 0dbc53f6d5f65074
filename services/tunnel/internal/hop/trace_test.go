// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hop

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// conn is an agent's connection that answers by itself.
type conn func(*http.Request) (*http.Response, error)

func (c conn) RoundTrip(req *http.Request) (*http.Response, error) { return c(req) }
func (conn) Status() session.Status                                { return session.Ready }
func (conn) LastSeen() time.Time                                   { return time.Time{} }
func (conn) Leave(context.Context, time.Duration) error            { return nil }
func (conn) Done() <-chan struct{}                                 { return nil }
func (conn) Shutdown(context.Context) error                        { return nil }
func (conn) Close() error                                          { return nil }

// replicas are two of them, of which the second one may have an agent.
type replicas struct {
	client  *Client
	handler *Handler
	route   relay.Route
	tracer  trace.Tracer
	spans   *tracetest.SpanRecorder
}

// unrecorded is an audit log that discards every record.
type unrecorded struct{}

func (unrecorded) Write(context.Context, *audit.Record) error { return nil }

func startReplicas(t *testing.T, sampler sdktrace.Sampler, agent conn) *replicas {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	table := session.NewTable(session.DefaultLimits())
	if agent != nil {
		if _, _, err := table.Add(session.Info{Cluster: "demo"}, agent); err != nil {
			t.Fatal(err)
		}
	}
	handler := NewHandler(Deps{
		Self: relay.Replica{ID: "second"}, Verifier: hubkeys.Verifier(identity.ReplicaAudience(ServiceName, "second"), ServiceName), Table: table, Sink: unrecorded{}, Logger: slog.New(slog.DiscardHandler),
		Tracer: provider.Tracer("test"), Propagator: propagation.TraceContext{},
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	client, err := NewClient(ClientParams{
		Self: "first", Key: hubkeys.Key(ServiceName), CAPEM: nil, Tracer: provider.Tracer("test"), Propagator: propagation.TraceContext{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &replicas{
		client: client, handler: handler, route: relay.Route{Replica: relay.Replica{ID: "second", URL: server.URL}},
		tracer: provider.Tracer("test"), spans: spans,
	}
}

// send sends what a person has asked the first replica, below a span of its own.
func (r *replicas) send(t *testing.T) (*http.Response, trace.SpanContext, error) {
	t.Helper()
	ctx, span := r.tracer.Start(t.Context(), "GET /clusters/{cluster}/")
	defer span.End()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kubernetes/api/v1/pods?command=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	res, err := r.client.RoundTrip(req, r.route, relay.Target{Target: session.Target{Cluster: "demo"}})
	return res, span.SpanContext(), err
}

// ended waits for the spans of a kind that are over. The handler's ends a little after its answer.
func (r *replicas) ended(t *testing.T, kind trace.SpanKind) sdktrace.ReadOnlySpan {
	t.Helper()
	for t.Context().Err() == nil {
		for _, span := range r.spans.Ended() {
			if span.SpanKind() == kind {
				return span
			}
		}
	}
	return nil
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, kv := range span.Attributes() {
		found[string(kv.Key)] = kv.Value.String()
	}
	return found
}

func TestTraceGoesOnOverTheHop(t *testing.T) {
	t.Parallel()
	var seen string
	r := startReplicas(t, sdktrace.AlwaysSample(), func(req *http.Request) (*http.Response, error) {
		seen = req.Header.Get("Traceparent")
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("pods")), Request: req}, nil
	})
	res, parent, err := r.send(t)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if slices.ContainsFunc(r.spans.Ended(), func(span sdktrace.ReadOnlySpan) bool { return span.SpanKind() == trace.SpanKindClient }) {
		t.Error("the span of the hop ended before its answer")
	}
	if body, err := io.ReadAll(res.Body); string(body) != "pods" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
	here, there := r.ended(t, trace.SpanKindClient), r.ended(t, trace.SpanKindServer)
	if here.Parent().SpanID() != parent.SpanID() || there.Parent().SpanID() != here.SpanContext().SpanID() || there.SpanContext().TraceID() != parent.TraceID() {
		t.Errorf("got %v below %v below %v, want one chain", there.Parent().SpanID(), here.Parent().SpanID(), parent.SpanID())
	}
	if want := "00-" + parent.TraceID().String() + "-" + there.SpanContext().SpanID().String() + "-01"; seen != want {
		t.Errorf("got traceparent %s at the agent, want %s", seen, want)
	}
	address := strings.TrimPrefix(r.route.Replica.URL, "http://")
	host, port, _ := strings.Cut(address, ":")
	wantSpan(t, here, "GET", codes.Error, map[string]string{ // by the conventions, 4xx is a client's error and none of a server's
		"http.request.method": "GET", "url.full": r.route.Replica.URL + "/tunnel/v1/hop/api/v1/pods", "server.address": host, "server.port": port,
		"network.protocol.version": "2", "leat.cluster": "demo", "http.response.status_code": "404", "error.type": "404",
	})
	wantSpan(t, there, "GET /tunnel/v1/hop/", codes.Unset, map[string]string{
		"http.request.method": "GET", "http.route": "/tunnel/v1/hop/", "url.path": "/tunnel/v1/hop/api/v1/pods", "url.scheme": "http",
		"network.protocol.version": "2", "client.address": "127.0.0.1", "leat.cluster": "demo", "http.response.status_code": "404",
	})
}

func wantSpan(t *testing.T, span sdktrace.ReadOnlySpan, name string, status codes.Code, want map[string]string) {
	t.Helper()
	got := attributes(span)
	if span.Name() != name || span.Status().Code != status {
		t.Errorf("got span %q with status %v, want %q with %v", span.Name(), span.Status().Code, name, status)
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: got %s=%q, want %q", name, key, got[key], value)
		}
	}
	for key, value := range got {
		if strings.Contains(value, "secret") {
			t.Errorf("%s: got the query in %s", name, key)
		}
	}
}

func TestSpansOfHopsThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent conn
		here  string
		there map[string]string
	}{
		"no such agent": {nil, "not-here", map[string]string{"error.type": "not-here", "http.response.status_code": "421"}},
		"lost agent": {
			func(*http.Request) (*http.Response, error) { return nil, session.ErrLost }, "lost",
			map[string]string{"error.type": "lost", "http.response.status_code": "502"},
		},
		"defect": {
			func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }, "failed",
			map[string]string{"error.type": "failed", "http.response.status_code": "502"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReplicas(t, sdktrace.AlwaysSample(), c.agent)
			if res, _, err := r.send(t); err == nil {
				_ = res.Body.Close()
				t.Fatal("got an answer, want none")
			}
			wantSpan(t, r.ended(t, trace.SpanKindClient), "GET", codes.Error, map[string]string{"error.type": c.here})
			wantSpan(t, r.ended(t, trace.SpanKindServer), "GET /tunnel/v1/hop/", codes.Error, c.there)
		})
	}
	t.Run("no replica", func(t *testing.T) {
		t.Parallel()
		r := startReplicas(t, sdktrace.AlwaysSample(), nil)
		r.route.Replica.URL = "http://127.0.0.1:1"
		if res, _, err := r.send(t); err == nil {
			_ = res.Body.Close()
			t.Fatal("got an answer, want none")
		}
		wantSpan(t, r.ended(t, trace.SpanKindClient), "GET", codes.Error, map[string]string{"error.type": "unreachable"})
	})
}

// TestUnrecordedRequestsCostNothing has an unrecorded trace: the agent is told of it as it is, and
// no span is made.
func TestUnrecordedRequestsCostNothing(t *testing.T) {
	t.Parallel()
	var seen string
	r := startReplicas(t, sdktrace.NeverSample(), func(req *http.Request) (*http.Response, error) {
		seen = req.Header.Get("Traceparent")
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	})
	res, parent, err := r.send(t)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if want := "00-" + parent.TraceID().String() + "-" + parent.SpanID().String() + "-00"; seen != want {
		t.Errorf("got traceparent %s at the agent, want %s", seen, want)
	}
	if got := len(r.spans.Started()); got > 0 {
		t.Errorf("got %d spans, want none", got)
	}
}

// TestNoAllocationWithoutASpan is not parallel, because others' allocations would count.
func TestNoAllocationWithoutASpan(t *testing.T) {
	r := startReplicas(t, sdktrace.NeverSample(), nil)
	ctx, span := r.tracer.Start(t.Context(), "unrecorded")
	defer span.End()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/tunnel/v1/hop/api", nil)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	got := testing.AllocsPerRun(1000, func() {
		if r.client.startSpan(req, relay.Target{}) != nil || r.handler.startSpan(req) != nil {
			t.Error("got a span, want none")
		}
	})
	if got > 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func TestSampled(t *testing.T) {
	t.Parallel()
	const ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
	for parent, want := range map[string]bool{
		"00-" + ids + "01": true, "00-" + ids + "00": false, "00-" + ids + "03": true, "00-" + ids + "0a": false, "00-" + ids + "ff": true,
		"01-" + ids + "01-more": true, "00-" + ids + "zz": false, "": false, "00-" + ids: false,
	} {
		if got := sampled(http.Header{"Traceparent": {parent}}); got != want {
			t.Errorf("%q: got %v, want %v", parent, got, want)
		}
	}
}
