// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/webhook"
)

const (
	own    = "the secret of one repository"
	shared = "the secret of all the others"
)

// hub is a handler with what it works with.
type hub struct {
	repositories []mirror.Definition
	meter        metric.Meter
	// fail is the result of Refresh.
	fail func(name string) error

	// shared, if set, makes Remember return an error.
	shared error

	verified  atomic.Int32 // senders whose proof was accepted
	mux       *http.ServeMux
	mu        sync.Mutex
	kept      map[string]bool
	refreshed []string
	traces    []trace.TraceID
	done      chan string
	records   chan recorded
}

// recorded is a record about the repository of a uid.
type recorded struct {
	uid    string
	record hooklog.Record
}

// Record implements webhook.Log.
func (h *hub) Record(_ context.Context, uid string, record hooklog.Record) error {
	h.records <- recorded{uid, record}
	return h.shared
}

// start runs the handler until the test ends.
func (h *hub) start(t *testing.T) *hub {
	t.Helper()
	if h.meter == nil {
		h.meter = metricnoop.NewMeterProvider().Meter("")
	}
	h.done, h.records = make(chan string, 1000), make(chan recorded, 1000)
	handler, err := webhook.New(webhook.Params{
		Deliveries: h, Log: h, Repositories: func() []mirror.Definition { return h.repositories }, Refresh: h.refresh, DefaultSecret: shared,
		Logger: slog.New(slog.DiscardHandler), Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: h.meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.mux = http.NewServeMux()
	h.mux.Handle(webhook.Pattern, handler)
	h.mux.Handle(webhook.RepositoryPattern, handler)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- handler.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
	})
	return h
}

// Remember implements webhook.Deliveries.
func (h *hub) Remember(_ context.Context, id string, _ time.Duration) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil {
		h.kept = map[string]bool{}
	}
	fresh := !h.kept[id]
	h.kept[id] = true
	return fresh && h.shared == nil, h.shared
}

// Forget implements webhook.Deliveries.
func (h *hub) Forget(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.kept, id)
	return h.shared
}

func (h *hub) refresh(ctx context.Context, name string) error {
	if h.fail != nil {
		if err := h.fail(name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refreshed = append(h.refreshed, name)
	h.traces = append(h.traces, trace.SpanContextFromContext(ctx).TraceID())
	h.done <- name
	return nil
}

// await returns the names of the next n refreshes, sorted.
func (h *hub) await(t *testing.T, n int) []string {
	t.Helper()
	var names []string
	for range n {
		names = append(names, await.Value(t, fmt.Sprintf("a refresh after %q", names), h.done))
	}
	slices.Sort(names)
	return names
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.refreshed)
}

// delivery is one webhook.
type delivery struct {
	provider string // with "/" and a repository: sent to that repository's address
	header   map[string]string
	body     []byte
	from     string // "address:port"; empty: some
	span     trace.SpanContext
}

func (h *hub) send(t *testing.T, d delivery) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(
		trace.ContextWithSpanContext(t.Context(), d.span), http.MethodPost, "/webhooks/"+d.provider,
		bytes.NewReader(d.body),
	)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range d.header {
		r.Header.Set(name, value)
	}
	if d.from != "" {
		r.RemoteAddr = d.from
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r.WithContext(identity.OnVerified(r.Context(), func() { h.verified.Add(1) })))
	return w
}

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("provider", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mac(secret string, parts ...[]byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	for _, part := range parts {
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func github(t *testing.T, secret, event, name string) delivery {
	t.Helper()
	body := fixture(t, name)
	return delivery{provider: "github", body: body, header: map[string]string{
		"X-GitHub-Event": event, "X-GitHub-Delivery": "1", "X-Hub-Signature-256": "sha256=" + mac(secret, body),
	}}
}

func generic(secret, body string, at time.Time) delivery {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return delivery{provider: "generic", body: []byte(body), header: map[string]string{
		"X-Leat-Timestamp": stamp, "X-Leat-Signature-256": "sha256=" + mac(secret, []byte(stamp+"."), []byte(body)),
	}}
}

func repository(name, url string, signing secret.Text) mirror.Definition {
	return mirror.Definition{
		Name: name, UID: "uid-" + name, Definition: upstream.Definition{URL: url, WebhookSecret: signing},
	}
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Errorf("got status %d %s, want %d", w.Code, w.Body, want)
	}
}
