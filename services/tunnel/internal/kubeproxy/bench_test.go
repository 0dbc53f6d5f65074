// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// BenchmarkSmallGet measures the hub's own work for one small answer: all but the connections to
// the caller and the agent.
func BenchmarkSmallGet(b *testing.B) {
	tel, err := telemetry.Start(b.Context(), telemetry.Config{LogOutput: io.Discard}, "tunnel")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { tel.Shutdown(context.WithoutCancel(b.Context())) })
	queue, err := audit.NewQueue(audit.QueueParams{
		Name: "file", Output: audit.NewLog(io.Discard), Logger: tel.Logger(), Meter: tel.Meter("test"),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	written := make(chan error, 1)
	go func() { written <- queue.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-written; err != nil {
			b.Error(err)
		}
	})
	verifier, err := identity.Remember(everybody{}, 10)
	if err != nil {
		b.Fatal(err)
	}
	handler := newHandler(b, func(deps *kubeproxy.Deps) {
		deps.Verifier, deps.Access, deps.Sink = verifier, policy.NewCache(policy.DefaultCacheParams(everybody{})), audit.Fan{queue}
		deps.Logger, deps.Tracer, deps.Propagator, deps.Meter = tel.Logger(), tel.Tracer("test"), tel.Propagator(), tel.Meter("test")
		deps.Router = connected(b, answer)
	})
	req := httptest.NewRequest(http.MethodGet, "/clusters/demo/api/v1/namespaces/default/configmaps/small", nil)
	req.Header = http.Header{
		"Authorization": {"Bearer token"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"kubectl"}, "Accept": {"application/json"},
	}
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/2.0", 2, 0
	b.ReportAllocs()
	for b.Loop() {
		w := &discarding{header: http.Header{}}
		handler.ServeHTTP(w, req)
		if w.status != http.StatusOK {
			b.Fatalf("got status %d, want 200", w.status)
		}
	}
}

// answer is an agent's, with the headers of an API server's.
func answer(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/2.0", ProtoMajor: 2, Request: req,
		Header: http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(small))},
			"Audit-Id": {"a"}, "Cache-Control": {"no-cache, private"}, "Date": {time.RFC1123},
		},
		ContentLength: int64(len(small)), Body: io.NopCloser(strings.NewReader(small)),
	}, nil
}

var small = strings.Repeat("x", 1<<10)

// discarding is a caller who takes everything.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
