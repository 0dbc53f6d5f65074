// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// How long callers are asked to wait.
const (
	retrySoon    = time.Second     // something ends or another replica answers
	retryOffline = 5 * time.Second // an agent reconnects
)

// statusClientGone is the number that proxies use for a caller who went away; nobody reads it but the audit log.
const statusClientGone = 499

func refuseToken(err error) *refusal {
	if errors.Is(err, identity.ErrUnavailable) {
		return &refusal{
			code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "DEPENDENCY_UNAVAILABLE",
			origin: originHub, message: "the token cannot be verified now because the distributor does not answer; retry",
			retryAfter: retrySoon,
		}
	}
	return &refusal{
		code: http.StatusUnauthorized, kubeReason: "Unauthorized", reason: "TOKEN_INVALID", origin: originHub,
		message: "the token is missing, malformed, expired or not for this hub; obtain a new one",
	}
}

// refuseAccess is the same for a cluster that does not exist and for one that the caller may not reach.
func refuseAccess(cluster string) *refusal {
	return &refusal{
		code: http.StatusForbidden, kubeReason: "Forbidden", reason: "ACCESS_DENIED", origin: originHub,
		message: fmt.Sprintf("cluster %q does not exist or you may not reach it; ask an administrator for a binding", cluster),
	}
}

func refusePath() *refusal {
	return &refusal{
		code: http.StatusBadRequest, kubeReason: "BadRequest", reason: "FIELD_INVALID", origin: originHub,
		message: `the path holds a segment "." or "..", or a malformed escape; write the path without it`,
	}
}

func refuseUndecided(err error) *refusal {
	if errors.Is(err, policy.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return &refusal{
			code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "DEPENDENCY_UNAVAILABLE",
			origin: originHub, message: "the distributor does not answer whether you may reach the cluster; retry",
			retryAfter: retrySoon,
		}
	}
	return refuseInternal()
}

func refuseInternal() *refusal {
	return &refusal{
		code: http.StatusInternalServerError, kubeReason: "InternalError", reason: "INTERNAL", origin: originHub,
		message: "a defect in the hub; report it with the trace id, under which its log holds the cause",
	}
}

func refuseDraining() *refusal {
	return &refusal{
		code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "SHUTTING_DOWN", origin: originHub,
		message: "this replica of the hub is shutting down; retry, and another one answers", retryAfter: retrySoon,
	}
}

// refuseStream says why no request can be sent to the agent.
func refuseStream(err error, cluster string) *refusal {
	var busy *session.BusyError
	switch {
	case errors.As(err, &busy):
		return refuseBusy(fmt.Sprintf("%d requests of this %s are under way, which is the limit; retry when one has ended",
			busy.Limit, busy.Scope))
	case errors.Is(err, session.ErrFull):
		return refuseBusy("the cluster's agent carries as many requests as it allows; retry when one has ended")
	case errors.Is(err, session.ErrDraining):
		return refuseDraining()
	case errors.Is(err, relay.ErrUnavailable):
		return &refusal{
			code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "DEPENDENCY_UNAVAILABLE",
			origin: originHub, retryAfter: retrySoon,
			message: fmt.Sprintf("this replica of the hub has no connection to the agent of cluster %q and cannot ask which one has; "+
				"retry, and see to Redis if it goes on", cluster),
		}
	case errors.Is(err, context.Canceled):
		return refuseGone()
	default:
		return &refusal{
			code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "AGENT_OFFLINE",
			origin: originTunnel, retryAfter: retryOffline,
			message: fmt.Sprintf("the agent of cluster %q is not connected; check that it runs and reaches the hub", cluster),
		}
	}
}

func refuseGone() *refusal {
	return &refusal{
		code: statusClientGone, kubeReason: "ClientClosedRequest", reason: "CANCELED", origin: originHub,
		message: "the caller went away",
	}
}

func refuseBusy(message string) *refusal {
	return &refusal{
		code: http.StatusTooManyRequests, kubeReason: "TooManyRequests", reason: "RATE_LIMITED", origin: originTunnel,
		message: message, retryAfter: retrySoon,
	}
}

// refuseRoundTrip says why a request that was sent to the agent has no response.
func refuseRoundTrip(ctx context.Context, err error, method, cluster string) *refusal {
	var stream http2.StreamError
	var busy *session.BusyError
	var open *fanin.OpenError
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errDrained):
		return refuseDraining()
	case errors.Is(cause, errRevoked):
		return refuseAccess(cluster)
	case cause != nil:
		return refuseGone()
	case errors.Is(err, session.ErrFull), errors.Is(err, session.ErrOffline), errors.Is(err, session.ErrDraining),
		errors.As(err, &busy), errors.As(err, &open):
		return refuseStream(err, cluster)
	case errors.Is(err, session.ErrLost):
		return refuseLost(method, cluster)
	case errors.As(err, &stream):
		return &refusal{
			code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "CLUSTER_UNREACHABLE", origin: originAgent,
			message: fmt.Sprintf("the agent of cluster %q broke the request off (%v); see its log", cluster, stream.Code),
		}
	default:
		return &refusal{
			code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "AGENT_OFFLINE", origin: originTunnel,
			message: fmt.Sprintf("the request could not be carried to the agent of cluster %q: %v", cluster, err),
		}
	}
}

// refuseLost lets clients repeat by themselves only what is safe to repeat: whether the cluster has carried the request
// out is not known.
func refuseLost(method, cluster string) *refusal {
	r := &refusal{
		code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "AGENT_OFFLINE", origin: originTunnel,
		message: fmt.Sprintf("the connection to the agent of cluster %q was lost before it answered; "+
			"check whether the request took effect before you repeat it", cluster),
	}
	if method == http.MethodGet || method == http.MethodHead {
		r.code, r.kubeReason, r.retryAfter = http.StatusServiceUnavailable, "ServiceUnavailable", retrySoon
		r.message = fmt.Sprintf("the connection to the agent of cluster %q was lost before it answered; retry", cluster)
	}
	return r
}
