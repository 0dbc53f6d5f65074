// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeproxy is the door for people: /clusters/{name}/… is that cluster's Kubernetes API. A request is
// authenticated, decided, recorded, and then carried through the agent's connection byte for byte, with nothing added
// but whom to impersonate.
package kubeproxy

import (
	"log"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/timeouts"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
)

// Deps are the collaborators of a [Handler]. All are required, but where something else is said.
type Deps struct {
	// Verifier reads people's access tokens.
	Verifier identity.Verifier
	// Access decides who may reach which cluster.
	Access policy.Access
	// Router finds the agents' connections.
	Router *relay.Router
	// Sink takes the audit records.
	Sink audit.Sink
	// Logger is told what callers cannot be told.
	Logger *slog.Logger
	// Tracer and Propagator carry traces from the caller to the agent.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	// Meter measures requests.
	Meter metric.Meter
	// FanIn lets watches share what they ask of a cluster. Nil: each has a watch of its own.
	FanIn *fanin.Relay
	// Quota bounds the bytes of people and clusters. Nil: nothing does.
	Quota *quota.Ledger
	// UploadMemory bounds, in bytes, the bodies that have arrived over HTTP/2 and wait for their cluster.
	UploadMemory int64
	// RecheckInterval is how often the permission of a request that is still running is asked for again.
	RecheckInterval time.Duration
	// StallTimeout is how long a caller may take nothing of an answer before its request is ended.
	StallTimeout time.Duration
	// SessionGrace is how long an upgraded connection may go on once the replica drains.
	SessionGrace time.Duration
	// Recorder may record upgraded connections. Nil: none is recorded.
	Recorder Recorder
}

// Handler serves everything below [Prefix].
type Handler struct {
	deps        Deps
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
	return &Handler{
		deps: deps, instruments: measured, uploads: uploads,
		errorLog: slog.NewLogLogger(deps.Logger.Handler(), slog.LevelDebug),
		buffers:  &serve.CopyBuffers{},
		rechecks: timeouts.NewQueue(deps.RecheckInterval),
	}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := h.deps.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	parent := trace.SpanContextFromContext(ctx)
	ctx, span := h.startSpan(ctx, r)
	defer span.End()
	c := &call{
		Handler: h, w: &response{ResponseWriter: w}, r: r.WithContext(ctx), traceID: traceID(span.SpanContext()), began: time.Now(),
	}
	c.id = requestID(parent, c.traceID)
	defer c.endSpan(span)
	if refused := c.serve(); refused != nil {
		c.fault(refused)
		refused.write(c.w, r, c.target.cluster, c.traceID)
	}
}
