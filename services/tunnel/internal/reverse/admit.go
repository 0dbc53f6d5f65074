// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http/httpguts"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Headers that an agent sends with its request.
const (
	headerAgentVersion = "Leat-Agent-Version"
	headerConnectionID = "Leat-Connection-Id"
	// headerInstance names the agent's process.
	headerInstance = "Leat-Agent-Instance"
	// headerAvoidReplica lists the replicas that the agent does not want this connection to be at.
	headerAvoidReplica = "Leat-Avoid-Replica"
)

// maxLabel bounds the values of these headers.
const maxLabel = 128

// retrySoon is sent to waiting callers when another replica, or the same one after its restart,
// will take them.
const retrySoon = time.Second

// admit returns the cluster that the sender of these headers has proven to be, or why it may not
// connect. address is the sender's address. Only an authenticated agent waits at the gate: other
// callers would use up the agents' turns.
func (h *Handler) admit(ctx context.Context, header http.Header, address string) (session.Info, error) {
	if wake.IsClosed(h.deps.Table.Draining()) {
		return session.Info{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN,
			"this replica is shutting down; connect again", rpcerr.RetryAfter(retrySoon))
	}
	if httpguts.HeaderValuesContainsToken(header[headerAvoidReplica], h.deps.Replica) {
		return session.Info{}, rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS,
			"this is a replica that the agent is connected to already; connect again to reach another")
	}
	caller, err := h.authenticate(ctx, header, address)
	if err != nil {
		return session.Info{}, err
	}
	if err := h.deps.Gate.pass(ctx, caller.Name); err != nil {
		return session.Info{}, err
	}
	info := session.Info{
		ID: header.Get(headerConnectionID), Cluster: caller.Name, ClusterUID: caller.UID,
		AgentVersion: header.Get(headerAgentVersion), Instance: header.Get(headerInstance), TokenID: caller.TokenID, TokenExpires: caller.Expires,
		RemoteAddress: address, Epoch: h.deps.Table.NextEpoch(), ConnectedAt: time.Now(),
	}
	if info.ID == "" {
		return session.Info{}, rpcerr.Field(headerConnectionID, "is missing")
	}
	for name, value := range map[string]string{
		headerConnectionID: info.ID, headerAgentVersion: info.AgentVersion, headerInstance: info.Instance,
	} {
		if !isLabel(value) {
			return session.Info{}, rpcerr.Field(name, "must be at most 128 letters, digits or one of -._~+")
		}
	}
	if err := h.deps.Table.Admit(info); err != nil {
		h.logFailed(ctx, info, err)
		return session.Info{}, rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID,
			"another process of this agent has connected with this token or with a newer one; obtain another")
	}
	return info, nil
}

func (h *Handler) authenticate(ctx context.Context, header http.Header, address string) (identity.Identity, error) {
	end, err := h.checks.begin(address)
	if err != nil {
		return identity.Identity{}, err
	}
	defer end()
	caller, err := identity.FromHeader(ctx, h.deps.Verifier, header)
	if err != nil {
		return identity.Identity{}, err
	}
	if caller.Kind != identity.KindCluster {
		return identity.Identity{}, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
			"only a cluster's agent may open its tunnel")
	}
	return caller, nil
}

// labelBytes are the bytes that logs and tables can hold unescaped.
const labelBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+"

// isLabel reports whether a header's value can be put into logs and tables unescaped.
func isLabel(s string) bool { return len(s) <= maxLabel && strings.Trim(s, labelBytes) == "" }
