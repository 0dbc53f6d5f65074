// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Path is where agents connect.
const Path = "/tunnel/v1/connect"

// Protocol is the token of the Upgrade header. The number grows when the two sides could not understand each other.
const Protocol = "leat-tunnel/1"

// How sessions name what carries them.
const (
	transportUpgrade   = "upgrade"
	transportWebSocket = "websocket"
	transportConnect   = "connect"
	// transportDialled is an Upgrade that the hub has asked the agent for.
	transportDialled = "dialled"
)

// Deps are the collaborators of a [Handler]. All are required.
type Deps struct {
	// Verifier reads agents' access tokens.
	Verifier identity.Verifier
	// Table takes the connections.
	Table *session.Table
	// Dialer begins HTTP/2 on them.
	Dialer *Dialer
	// Gate bounds how many come in a second.
	Gate *Gate
	// Replica names this replica.
	Replica string
	// Logger tells when agents come and go.
	Logger *slog.Logger
	// HandshakeTimeout is how long an agent may take from its request to its first HTTP/2 answer.
	HandshakeTimeout time.Duration
	// EvictTimeout is how long requests on a connection may go on when the cluster opened too many newer ones.
	EvictTimeout time.Duration
}

// Handler is the endpoint at which agents hand their connections over.
type Handler struct {
	deps     Deps
	checks   checks
	evicting sync.WaitGroup
}

// NewHandler returns the endpoint.
func NewHandler(deps Deps) *Handler { return &Handler{deps: deps} }

// Wait returns when nothing goes on any more that an agent's connection has begun. It is called after the table is drained.
func (h *Handler) Wait() { h.evicting.Wait() }

// ServeHTTP implements http.Handler. A connection that was handed over lives on when it has returned.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := checkUpgrade(r); err != nil {
		w.Header().Set("Allow", http.MethodGet)
		if r.ProtoMajor == 1 { // HTTP/2 forbids these
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", Protocol)
		}
		rpcerr.WriteHTTP(statusWriter{ResponseWriter: w, status: status}, r, err)
		return
	}
	info, err := h.admit(r.Context(), r.Header, r.RemoteAddr)
	if err != nil {
		rpcerr.WriteHTTP(w, r, err)
		return
	}
	begin := h.takeOver
	info.Transport = transportUpgrade
	if asksFor(r, "websocket") {
		begin, info.Transport = h.acceptWebSocket, transportWebSocket
	}
	conn, err := begin(w, r, info)
	if err != nil {
		h.logFailed(r.Context(), info, err)
		return
	}
	h.hold(context.WithoutCancel(r.Context()), info, conn)
}

func (h *Handler) logFailed(ctx context.Context, info session.Info, err error) {
	h.deps.Logger.WarnContext(ctx, "agent connection not established", sessionAttrs(info, slog.String("error", err.Error()))...)
}

// hold keeps the connection in the table until it ends. It does not wait for that.
func (h *Handler) hold(ctx context.Context, info session.Info, conn *Conn) {
	added, evicted, err := h.deps.Table.Add(info, conn)
	if err != nil {
		h.deps.Logger.InfoContext(ctx, "agent connection refused", sessionAttrs(info, slog.String("error", err.Error()))...)
		_ = conn.Close() // the agent sees the end of the connection and comes back elsewhere
		return
	}
	h.deps.Logger.InfoContext(ctx, "agent connected", sessionAttrs(info)...)
	for _, old := range evicted {
		h.evicting.Go(func() { h.evict(ctx, old) })
	}
	conn.OnClose(func() {
		h.deps.Table.Remove(added)
		h.deps.Logger.InfoContext(ctx, "agent disconnected",
			sessionAttrs(info, slog.Duration("connected_for", time.Since(info.ConnectedAt)))...)
	})
}

func (h *Handler) evict(ctx context.Context, old *session.Session) {
	ctx, cancel := context.WithTimeout(ctx, h.deps.EvictTimeout)
	defer cancel()
	h.deps.Logger.WarnContext(ctx, "agent's connection makes room for newer ones", sessionAttrs(old.Info())...)
	if err := old.Evict(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		h.deps.Logger.DebugContext(ctx, "evicted agent connection ended", slog.String("error", err.Error()))
	}
}

func sessionAttrs(info session.Info, more ...any) []any {
	return append([]any{
		slog.String("leat.cluster", info.Cluster), slog.String("leat.cluster.uid", info.ClusterUID),
		slog.String("connection", info.ID), slog.String("client.address", info.RemoteAddress),
		slog.String("agent_version", info.AgentVersion), slog.String("transport", info.Transport),
	}, more...)
}

// statusWriter answers with another status than the error's code has: HTTP has numbers for a missing upgrade that no
// code of a call maps to.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w statusWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }
