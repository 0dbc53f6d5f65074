// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"io"
	"net/http"

	"connectrpc.com/grpcreflect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/leatdev/leat/internal/telemetry"
)

// MuxParams is what [NewMux] needs.
type MuxParams struct {
	Health    *Health
	Telemetry *telemetry.Telemetry
	// Services are the full names of the Connect services that will be mounted, such as
	// "leat.gitcache.v1.GitCacheService". Reflection lists them and grpc.health.v1 answers for them.
	Services []string
}

// NewMux returns a mux with the endpoints that every service has, open to everybody:
//
//   - GET /healthz answers 200 as long as the process serves at all: a liveness probe.
//   - GET /readyz answers 200 when every check passes, else 503 with the names of those that do not: a readiness probe.
//   - GET /metrics is for Prometheus.
//   - grpc.health.v1 and the reflection service, for gRPC's own probes and for tools such as grpcurl and buf curl.
func NewMux(params MuxParams) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.Handle("GET /readyz", &readiness{health: params.Health, logger: params.Telemetry.Logger()})
	mux.Handle("GET /metrics", params.Telemetry.MetricsHandler())
	for path, handler := range healthHandlers(params.Health, params.Services) {
		mux.Handle(path, handler)
	}
	reflector := grpcreflect.NewStaticReflector(append([]string{healthv1.Health_ServiceDesc.ServiceName}, params.Services...)...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector))
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a probe that hung up has nobody to tell
}
