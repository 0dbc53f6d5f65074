// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeproxy is the door for people: /clusters/{name}/… is that cluster's Kubernetes API.
//
// It promises:
//   - A request is sent to an agent only after its caller is authenticated, the request is allowed, and
//     the decision is recorded, in this order.
//   - Method, path, query and body reach the API server byte for byte. Headers differ only in what
//     scrubRequest removes and impersonate adds: no caller can claim another identity.
//   - A caller never takes half an answer for a whole one: an answer that breaks off aborts the
//     connection or the stream, except for a watch that ends because the replica drains.
//   - Every request that was allowed leaves exactly one outcome, however it ends.
//   - A request ends when its permission is withdrawn, its quota is used up twice, its caller does not
//     read the answer, or the replica drains.
//
// A request passes through call (authenticate, decide, record, carry) and exchange (one request
// through one stream to the agent). An upgraded connection becomes a splice of the caller's
// connection and that stream.
//
// An exchange belongs to the goroutine of its handler. Another goroutine reads the upload and
// counts its bytes; counters that both use are atomic. The lock of rechecks is taken before the
// lock of its queue of timers. No other lock is held while another one is taken.
//
// The package does not know how agents are connected, decide access, or keep audit records.
package kubeproxy

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Deps are the collaborators of a [Handler]. All are required unless their comment makes them
// optional.
type Deps struct {
	// Verifier verifies people's access tokens.
	Verifier identity.Verifier
	// Access decides who may reach which cluster.
	Access policy.Access
	// Router finds the agents' connections.
	Router *relay.Router
	// Sink takes the audit records.
	Sink audit.Sink
	// Logger receives causes that callers must not see.
	Logger *slog.Logger
	// Tracer and Propagator carry traces from the caller to the agent.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	// Meter measures requests.
	Meter metric.Meter
	// FanIn lets viewers share watches. Nil: each viewer has a watch of its own.
	FanIn *fanin.Relay
	// Quota bounds the bytes of people and clusters. Nil: there is no bound.
	Quota *quota.Ledger
	// UploadMemory bounds, in bytes, the bodies that have arrived over HTTP/2 and wait for their
	// cluster.
	UploadMemory int64
	// RecheckInterval is how often the permission of a running request is checked again.
	RecheckInterval time.Duration
	// StallTimeout is how long a caller may read nothing of an answer before its request is ended.
	StallTimeout time.Duration
	// SessionGrace is how long an upgraded connection may continue once the replica drains.
	SessionGrace time.Duration
	// ClusterDomain is the domain of the clusters' own hosts; see [ByHost]. Empty: clusters have no
	// hosts.
	ClusterDomain string
	// Recorder records upgraded connections. Nil: none is recorded.
	Recorder Recorder
}

// Handler serves everything below [Prefix]. It holds what all requests share.
type Handler struct {
	deps Deps
	// hostSuffix is the end of the clusters' own hosts, and traceHeaders are the headers that carry
	// a trace, in canonical form.
	hostSuffix   string
	traceHeaders []string

	errorLog    *log.Logger
	buffers     *serve.CopyBuffers
	rechecks    *timeouts.Queue
	sessions    sessions
	instruments *instruments
	uploads     *uploads
}

// NewHandler returns the door. It fails when the meter refuses its instruments.
func NewHandler(deps Deps) (*Handler, error) {
	measured, err := newInstruments(deps.Meter)
	if err != nil {
		return nil, err
	}
	uploads, err := newUploads(deps.UploadMemory, deps.Meter)
	if err != nil {
		return nil, err
	}
	var traceHeaders []string
	for _, field := range deps.Propagator.Fields() {
		traceHeaders = append(traceHeaders, http.CanonicalHeaderKey(field))
	}
	return &Handler{
		deps: deps, instruments: measured, uploads: uploads,
		hostSuffix: hostSuffix(deps.ClusterDomain), traceHeaders: traceHeaders,
		errorLog: slog.NewLogLogger(deps.Logger.Handler(), slog.LevelDebug),
		buffers:  &serve.CopyBuffers{},
		rechecks: timeouts.NewQueue(deps.RecheckInterval),
	}, nil
}

// Wait blocks until no upgraded connection is left, or ctx ends. The server does not wait for them
// when it stops. Wait is called at most once.
func (h *Handler) Wait(ctx context.Context) { h.sessions.wait(ctx) }
