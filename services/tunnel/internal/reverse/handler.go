// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Protocol is the token of the Upgrade header. The number grows when the two sides could not
// understand each other.
const Protocol = "leat-tunnel/1"

// How sessions name their transports.
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
	// Logger records when agents connect and disconnect.
	Logger *slog.Logger
	// HandshakeTimeout is how long an agent may take from its request to its first HTTP/2 answer.
	HandshakeTimeout time.Duration
	// EvictTimeout is how long requests on a connection may continue after the cluster has opened
	// too many newer ones.
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

// Wait blocks until everything that agents' connections have begun is over. It is called after the
// table is drained.
func (h *Handler) Wait() { h.evicting.Wait() }

func (h *Handler) logFailed(ctx context.Context, info session.Info, err error) {
	h.deps.Logger.WarnContext(ctx, "agent connection not established", sessionAttrs(info, slog.String("error", err.Error()))...)
}

// begin begins HTTP/2 on a connection with an agent, and holds it. ctx bounds the beginning, beside
// the handshake timeout. The early bytes are as for [Dialer.Dial].
func (h *Handler) begin(ctx context.Context, conn net.Conn, early []byte, info session.Info) (*Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, h.deps.HandshakeTimeout)
	defer cancel()
	begun, err := h.deps.Dialer.Dial(dialing, conn, early, info)
	if err != nil {
		h.logFailed(ctx, info, err)
		return nil, err
	}
	h.hold(context.WithoutCancel(ctx), info, begun)
	return begun, nil
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
