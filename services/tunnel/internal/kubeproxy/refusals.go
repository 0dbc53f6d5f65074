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

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// How long callers are asked to wait.
const (
	retrySoon    = time.Second     // something ends or another replica answers
	retryOffline = 5 * time.Second // an agent reconnects
)

// Refusals before a request is sent to an agent.

func refuseToken(err error) *refusal {
	if errors.Is(err, identity.ErrUnavailable) {
		return refuseDependency("the token cannot be verified now because the distributor does not answer; retry")
	}
	return refuse(http.StatusUnauthorized, reason.TokenInvalid,
		"the token is missing, malformed, expired or not for this hub; obtain a new one")
}

// refuseAccess is the same for a cluster that does not exist and for one that the caller may not
// reach.
func refuseAccess(cluster string) *refusal {
	return refuseForbidden(fmt.Sprintf("cluster %q does not exist or you may not reach it; ask an administrator for a binding", cluster))
}

// refuseHost answers a request to a host below the clusters' domain that no cluster can have.
func refuseHost(suffix string) *refusal {
	return refuseForbidden(fmt.Sprintf("no cluster has this host; use NAME%[1]s for a cluster of the project default, and "+
		"PROJECT--NAME%[1]s for any other", suffix))
}

// refuseRule answers a caller that may reach the cluster, but not with this request.
func refuseRule(q accessrule.Request) *refusal {
	return refuseForbidden(fmt.Sprintf("your bindings do not let you %s; ask an administrator for one that does", q))
}

// refuseEvading answers a request whose session no recording would show.
func refuseEvading() *refusal {
	return refuseForbidden("sessions have to be recorded at this hub (--tunnel-record-required), which it cannot do for requests that " +
		"are proxied to nodes, pods and services or upgraded elsewhere; use exec or attach of the pod")
}

func refuseForbidden(message string) *refusal {
	return refuse(http.StatusForbidden, reason.AccessDenied, message)
}

func refuseField(message string) *refusal {
	return refuse(http.StatusBadRequest, reason.FieldInvalid, message)
}

func refuseUndecided(err error) *refusal {
	if errors.Is(err, policy.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return refuseDependency("the distributor does not answer whether you may reach the cluster; retry")
	}
	if rpcerr.IsRefusedToken(err) {
		return refuse(http.StatusServiceUnavailable, reason.HubTokenRefused,
			rpcerr.RefusedToken("the distributor", "the tunnel", err)+"; an operator of the hub has to repair this; retry").retryIn(retryOffline)
	}
	return refuseInternal()
}

// refuseUnrecordedDecision answers a request that is not carried out because no record would show
// it.
func refuseUnrecordedDecision() *refusal {
	return refuseDependency("the hub cannot write its audit log, so it did not carry the request out; retry, and inform an administrator")
}

func refuseUnrecordedSession() *refusal {
	return refuseDependency("the session has to be recorded, which is not possible now; retry")
}

func refuseDependency(message string) *refusal {
	return refuse(http.StatusServiceUnavailable, reason.DependencyUnavailable, message).retryIn(retrySoon)
}

func refuseInternal() *refusal {
	return refuse(http.StatusInternalServerError, reason.Internal,
		"a defect in the hub; report it with the trace id, under which its log holds the cause")
}

func refuseUploads() *refusal {
	return refuseBusy("the uploads under way, yours or all, hold as much memory as they may; retry when one has ended").from(originHub)
}

// refuseQuota answers whose quota is used up, and until when.
func refuseQuota(err error) *refusal {
	var exceeded *quota.ExceededError
	if !errors.As(err, &exceeded) {
		return refuseInternal()
	}
	return refuseBusy(fmt.Sprintf("the %d bytes that this %s may move in %v are used up; retry in %v",
		exceeded.Limit, exceeded.Scope, exceeded.Window, exceeded.RetryAfter.Round(time.Second))).retryIn(exceeded.RetryAfter)
}

func refuseBusy(message string) *refusal {
	return refuse(http.StatusTooManyRequests, reason.RateLimited, message).from(originTunnel).retryIn(retrySoon)
}

func refuseDraining() *refusal {
	return refuse(http.StatusServiceUnavailable, reason.ShuttingDown,
		"this replica of the hub is shutting down; retry, and another one answers").retryIn(retrySoon)
}

func refuseGone() *refusal {
	return refuse(statusClientGone, reason.Canceled, "the caller went away")
}

// refuseStream answers why no request can be sent to the agent.
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
		return refuseDependency(fmt.Sprintf("this replica of the hub has no connection to the agent of cluster %q and cannot find out "+
			"which replica has one; retry, and check Redis if this persists", cluster))
	case errors.Is(err, context.Canceled):
		return refuseGone()
	default:
		return refuse(http.StatusServiceUnavailable, reason.AgentOffline, fmt.Sprintf(
			"the agent of cluster %q is not connected; check that it runs and reaches the hub", cluster),
		).from(originTunnel).retryRPCIn(retryOffline)
	}
}

// refuseRoundTrip answers why a request that was sent to the agent has no response.
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
		return refuse(http.StatusBadGateway, reason.ClusterUnreachable, fmt.Sprintf(
			"the agent of cluster %q broke the request off (%v); see its log", cluster, stream.Code)).from(originAgent)
	default:
		return refuse(http.StatusBadGateway, reason.AgentOffline, fmt.Sprintf(
			"the request could not be carried to the agent of cluster %q: %v", cluster, err)).from(originTunnel)
	}
}

// refuseLost answers a request whose connection was lost. It is unknown whether the cluster has
// carried the request out, so clients may only repeat safe requests automatically.
func refuseLost(method, cluster string) *refusal {
	if method == http.MethodGet || method == http.MethodHead {
		return refuse(http.StatusServiceUnavailable, reason.AgentOffline, fmt.Sprintf(
			"the connection to the agent of cluster %q was lost before it answered; retry", cluster),
		).from(originTunnel).retryIn(retrySoon)
	}
	return refuse(http.StatusBadGateway, reason.AgentOffline, fmt.Sprintf(
		"the connection to the agent of cluster %q was lost before it answered; "+
			"check whether the request took effect before you repeat it", cluster)).from(originTunnel)
}
