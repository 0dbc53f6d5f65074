// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leatdev/leat/services/tunnel/internal/kubeapi"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
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

// connected is a router to one agent.
func connected(tb testing.TB, agent conn) *relay.Router {
	tb.Helper()
	table := session.NewTable(session.DefaultLimits())
	if _, _, err := table.Add(session.Info{Cluster: "demo"}, agent); err != nil {
		tb.Fatal(err)
	}
	return router(table)
}

const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

// traced makes one request and returns its span.
func traced(t *testing.T, agent conn, url string) (sdktrace.ReadOnlySpan, *httptest.ResponseRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	handler := newHandler(t, func(deps *kubeproxy.Deps) {
		deps.Tracer, deps.Propagator = provider.Tracer("test"), propagation.TraceContext{}
		if agent != nil {
			deps.Router = connected(t, agent)
		}
	})
	recorder := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, url, nil)
	req.Header.Set("Authorization", "Bearer token")
	req.Header.Set("User-Agent", "kubectl")
	req.Header.Set("Traceparent", "00-"+traceID+"-"+parent+"-01")
	handler.ServeHTTP(recorder, req)
	if len(spans.Ended()) != 1 {
		t.Fatalf("got %d spans, want 1", len(spans.Ended()))
	}
	return spans.Ended()[0], recorder
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, kv := range span.Attributes() {
		found[string(kv.Key)] = kv.Value.String()
	}
	return found
}

func TestTraceGoesOnToTheAgent(t *testing.T) {
	t.Parallel()
	var seen string
	span, recorder := traced(t, func(req *http.Request) (*http.Response, error) {
		seen = req.Header.Get("Traceparent")
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("pods")), Request: req}, nil
	}, "/clusters/demo/api/v1/namespaces/n/pods/p/exec?command=secret")
	if want := "00-" + traceID + "-" + span.SpanContext().SpanID().String() + "-01"; seen != want {
		t.Errorf("got traceparent %s at the agent, want %s", seen, want)
	}
	if span.Parent().SpanID().String() != parent || span.Name() != "GET /clusters/{cluster}/" || recorder.Body.String() != "pods" {
		t.Errorf("got span %q below %s, want the request below the caller's", span.Name(), span.Parent().SpanID())
	}
	got := attributes(span)
	for key, want := range map[string]string{
		"http.request.method": "GET", "http.route": "/clusters/{cluster}/", "http.response.status_code": "200",
		"url.path": "/clusters/demo/api/v1/namespaces/n/pods/p/exec", "url.scheme": "http", "network.protocol.version": "1.1",
		"user_agent.original": "kubectl", "client.address": "192.0.2.1", "leat.cluster": "demo", "http.response.body.size": "4",
	} {
		if got[key] != want {
			t.Errorf("got %s=%q, want %q", key, got[key], want)
		}
	}
	for key, value := range got {
		if strings.Contains(value, "secret") {
			t.Errorf("got the query in %s", key)
		}
	}
	if span.Status().Code != codes.Unset {
		t.Errorf("got status %v, want none", span.Status())
	}
}

func TestSpanOfWhatFailed(t *testing.T) {
	t.Parallel()
	span, _ := traced(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("broken") }, "/clusters/demo/api")
	if got := attributes(span); got["error.type"] != "AGENT_OFFLINE" || got["http.response.status_code"] != "502" || span.Status().Code != codes.Error {
		t.Errorf("got %v, status %v, want the reason and an error", got, span.Status())
	}
	span, _ = traced(t, nil, "/clusters/demo/a/../b")
	if got := attributes(span); got["error.type"] != "FIELD_INVALID" || span.Status().Code != codes.Unset {
		t.Errorf("got %v, status %v, want the reason, and no error of the server's", got, span.Status())
	}
}

// A span is told what became of the request also when the answer could not be written to its end.
func TestSpanOfWhatBrokeOff(t *testing.T) {
	t.Parallel()
	span := func() (span sdktrace.ReadOnlySpan) {
		spans := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		defer func() {
			if recovered := recover(); recovered != http.ErrAbortHandler { //nolint:errorlint // what was panicked with is no error chain
				t.Errorf("got %v, want the handler aborted", recovered)
			}
			span = spans.Ended()[0]
		}()
		handler := newHandler(t, func(deps *kubeproxy.Deps) {
			deps.Tracer = provider.Tracer("test")
			deps.Router = connected(t, func(req *http.Request) (*http.Response, error) {
				body := io.MultiReader(strings.NewReader("begun"), broken{})
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Request: req}, nil
			})
		})
		req := httptest.NewRequest(http.MethodGet, "/clusters/demo/api", nil)
		req = req.WithContext(context.WithValue(req.Context(), http.ServerContextKey, &http.Server{})) // as a server does
		req.Header.Set("Authorization", "Bearer token")
		handler.ServeHTTP(httptest.NewRecorder(), req)
		return nil
	}()
	if got := attributes(span); got["http.response.status_code"] != "200" || got["http.response.body.size"] != "5" {
		t.Errorf("got %v, want what was written", got)
	}
}

// TestSpanOfASessionThatCannotBeRecorded expects the reason of the refusal in the span.
func TestSpanOfASessionThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	handler := newHandler(t, func(deps *kubeproxy.Deps) {
		deps.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
		deps.Router, deps.Recorder = connected(t, answer), fullRecorder{}
	})
	req := httptest.NewRequest(http.MethodGet, "/clusters/demo/api/v1/namespaces/n/pods/p/exec", nil)
	req.Header = http.Header{"Authorization": {"Bearer token"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	if got := attributes(spans.Ended()[0]); recorder.Code != http.StatusServiceUnavailable || got["error.type"] != "DEPENDENCY_UNAVAILABLE" {
		t.Errorf("got %d and %v, want 503 and its reason", recorder.Code, got)
	}
}

// fullRecorder has no room for recordings.
type fullRecorder struct{}

func (fullRecorder) Evades(string, kubeapi.Attributes, bool) bool { return false }

func (fullRecorder) Begin(context.Context, kubeproxy.Session) (kubeproxy.Recording, error) {
	return nil, errors.New("disk full")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }
