// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/rpcerr"
)

// agentService begins the path of a call to the agent itself. No path of a Kubernetes API looks like it.
const agentService = "/" + agentv1connect.AgentServiceName + "/"

// headerSubject names the caller to the agent.
const headerSubject = "Leat-Subject"

// Groups that the roles of people in a cluster are bound to.
const (
	groupAdmins    = "leat:admins"
	groupOperators = "leat:operators"
	groupViewers   = "leat:viewers"
)

// isAgentCall reports whether the request is for the agent, and not for the API server.
func (t target) isAgentCall() bool { return strings.HasPrefix(t.path, agentService) }

// isEventStream reports whether the answer is the agent's stream of events.
func (t target) isEventStream() bool {
	return t.path == agentv1connect.AgentServiceWatchEventsProcedure
}

// callers are the groups whose members may make a call to the agent; none for a call that there is not. What the agent reads
// or does is done with its own rights, so that what tells of more than names and health, or changes something, needs an
// operator.
func callers(procedure string) []string {
	switch procedure {
	case agentv1connect.AgentServiceGetInventoryProcedure, agentv1connect.AgentServiceWatchEventsProcedure:
		return []string{groupAdmins, groupOperators, groupViewers}
	case agentv1connect.AgentServiceDiffProcedure, agentv1connect.AgentServiceReconcileProcedure:
		return []string{groupAdmins, groupOperators}
	}
	return nil
}

// decideAgentCall says whether who may reach the cluster may make this call to its agent.
func (c *call) decideAgentCall(groups []string) *refusal {
	allowed := callers(c.target.path)
	switch {
	case allowed == nil:
		return &refusal{
			code: http.StatusNotFound, kubeReason: "NotFound", reason: "UNIMPLEMENTED", origin: originHub,
			message: "this version of the hub knows no such call of an agent",
		}
	case slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(allowed, group) }):
		return nil
	}
	return &refusal{
		code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED", origin: originHub,
		message: "only members of " + strings.Join(allowed, ", ") + " may make this call; ask an administrator for a binding",
	}
}

// writeRPC answers an RPC as its protocol wants it, which plain HTTP clients can read as well.
func (r *refusal) writeRPC(w http.ResponseWriter, req *http.Request, traceID string) {
	w.Header().Set(headerContentTypeOptions, "nosniff")
	w.Header().Set(headerErrorOrigin, r.origin)
	w.Header().Set(headerErrorReason, r.reason)
	options := []rpcerr.Option{rpcerr.With("origin", r.origin), rpcerr.With("trace_id", traceID)}
	if r.retryAfter > 0 {
		options = append(options, rpcerr.RetryAfter(r.retryAfter))
	}
	reason := errorsv1.Reason(errorsv1.Reason_value["REASON_"+r.reason])
	// Nobody is left to tell when it fails.
	_ = connect.NewErrorWriter().Write(w, req, rpcerr.New(r.rpcCode(), reason, r.message, options...))
}

func (r *refusal) rpcCode() connect.Code {
	switch r.code {
	case http.StatusUnauthorized:
		return connect.CodeUnauthenticated
	case http.StatusForbidden:
		return connect.CodePermissionDenied
	case http.StatusBadRequest:
		return connect.CodeInvalidArgument
	case http.StatusNotFound, http.StatusNotImplemented:
		return connect.CodeUnimplemented
	case http.StatusTooManyRequests:
		return connect.CodeResourceExhausted
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return connect.CodeUnavailable
	case statusClientGone:
		return connect.CodeCanceled
	}
	return connect.CodeInternal
}
