// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// InternalParams are the parameters of [NewInternal].
type InternalParams struct {
	Health    *Health
	Telemetry *telemetry.Telemetry
	// Services are the full names of the service's Connect services, such as
	// "leat.gitcache.v1.GitCacheService". Reflection lists them and grpc.health.v1 answers for
	// them.
	Services []string
}

const (
	// maxProbeBytes bounds the body of a request to the internal listener, and each message in it,
	// both compressed and decompressed.
	maxProbeBytes = 4 << 10
	// maxProbeStream bounds all messages of one stream: a reflection client sends one message for
	// each file.
	maxProbeStream = 256 << 10
	// probeStallTimeout is how long a caller may read nothing of an answer that is being written.
	probeStallTimeout = 30 * time.Second
)

// NewInternal returns the handler of the internal listener. It requires no token:
//
//   - GET /healthz answers 200 as long as the process serves at all: a liveness probe.
//   - GET /readyz answers 200 if every check passes, else 503 with the names of the failed checks: a readiness probe.
//   - GET /metrics is for Prometheus.
//   - grpc.health.v1 and the reflection service, for gRPC's own probes and for tools such as grpcurl and buf curl.
//
// It bounds how many bytes it reads, and how long it waits for a caller to read an answer.
func NewInternal(params InternalParams) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.Handle("GET /readyz", &readiness{health: params.Health, logger: params.Telemetry.Logger()})
	mux.Handle("GET /metrics", params.Telemetry.MetricsHandler())
	for path, handler := range healthHandlers(params.Health, params.Services) {
		mux.Handle(path, handler)
	}
	reflector := grpcreflect.NewStaticReflector(append([]string{healthv1.Health_ServiceDesc.ServiceName}, params.Services...)...)
	mux.Handle(grpcreflect.NewHandlerV1(reflector, probeOptions()))
	mux.Handle(grpcreflect.NewHandlerV1Alpha(reflector, probeOptions()))
	return CutStalled(http.MaxBytesHandler(mux, maxProbeStream), probeStallTimeout)
}

// probeOptions bound a message. They reject compression: Connect would inflate a message completely
// before it knows the size.
func probeOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithReadMaxBytes(maxProbeBytes), connect.WithCompression("gzip", nil, nil))
}

func answer(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a probe that hung up needs no answer
}
