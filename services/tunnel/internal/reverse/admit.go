// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http/httpguts"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// Headers that an agent sends with its request.
const (
	headerAgentVersion = "Leat-Agent-Version"
	headerConnectionID = "Leat-Connection-Id"
)

// maxLabel bounds the two headers.
const maxLabel = 128

// retrySoon is what waiting callers are told when another replica, or the same one after its restart, will take them.
const retrySoon = time.Second

// checkUpgrade refuses requests that cannot become a tunnel, with the HTTP status for it.
func checkUpgrade(r *http.Request) (int, error) {
	switch {
	case r.ProtoMajor != 1:
		return http.StatusHTTPVersionNotSupported, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"the tunnel is opened by an HTTP/1.1 request: connect again without HTTP/2")
	case r.Method != http.MethodGet:
		return http.StatusMethodNotAllowed, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"the tunnel is opened by a GET request")
	case !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade"),
		!httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], Protocol):
		return http.StatusUpgradeRequired, rpcerr.New(connect.CodeUnimplemented, errorsv1.Reason_REASON_UNIMPLEMENTED,
			"this address speaks only the protocol "+Protocol+
				": send Connection: Upgrade and Upgrade: "+Protocol+", and check that no proxy in between removes them")
	default:
		return 0, nil
	}
}

// admit says which cluster the request's sender is, or why it may not connect.
func (h *Handler) admit(r *http.Request) (session.Info, error) {
	select {
	case <-h.deps.Table.Draining():
		return session.Info{}, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_SHUTTING_DOWN,
			"this replica is shutting down; connect again", rpcerr.RetryAfter(retrySoon))
	default:
	}
	caller, err := h.authenticate(r)
	if err != nil {
		return session.Info{}, err
	}
	id := r.Header.Get(headerConnectionID)
	if !validLabel(id) {
		return session.Info{}, rpcerr.Field(headerConnectionID, "must be 1 to 128 letters, digits or one of -._~+")
	}
	version := r.Header.Get(headerAgentVersion)
	if version != "" && !validLabel(version) {
		return session.Info{}, rpcerr.Field(headerAgentVersion, "must be at most 128 letters, digits or one of -._~+")
	}
	return session.Info{
		ID: id, Cluster: caller.Name, ClusterUID: caller.UID, RemoteAddress: r.RemoteAddr,
		AgentVersion: version, Transport: transportUpgrade, ConnectedAt: time.Now(),
	}, nil
}

func (h *Handler) authenticate(r *http.Request) (identity.Identity, error) {
	caller, err := identity.FromHeader(r.Context(), h.deps.Verifier, r.Header)
	if err != nil {
		return identity.Identity{}, err
	}
	if caller.Kind != identity.KindCluster {
		return identity.Identity{}, rpcerr.New(connect.CodePermissionDenied, errorsv1.Reason_REASON_ACCESS_DENIED,
			"only a cluster's agent may open its tunnel")
	}
	return caller, nil
}

// validLabel accepts what can stand in logs and tables as it is.
func validLabel(s string) bool {
	return s != "" && len(s) <= maxLabel && strings.IndexFunc(s, func(c rune) bool { return !labelRune(c) }) < 0
}

func labelRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._~+", c)
}
