// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// call is one request on its way.
type call struct {
	*Handler

	w       *response
	r       *http.Request
	traceID string

	caller   identity.Identity
	target   target
	decision policy.Decision
	trail    *audit.Trail
}

// traceID is what ties an error message, the audit log and the traces together. Without tracing it is a random number.
func traceID(span trace.SpanContext) string {
	if span.HasTraceID() {
		return span.TraceID().String()
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, says its documentation
	return hex.EncodeToString(id[:])
}

// serve carries the request out. A refusal means that nothing was written.
func (c *call) serve() *refusal {
	if refused := c.authenticate(); refused != nil {
		return refused
	}
	refused := c.decide()
	if err := c.record(refused); err != nil {
		c.deps.Logger.ErrorContext(c.r.Context(), "audit record not written", slog.String("error", err.Error()))
		return refuseInternal()
	}
	if refused != nil {
		return refused
	}
	return c.carry()
}

func (c *call) authenticate() *refusal {
	select {
	case <-c.deps.Table.Draining():
		return refuseDraining()
	default:
	}
	token, ok := identity.BearerToken(c.r.Header)
	if !ok {
		return refuseToken(identity.ErrTokenInvalid)
	}
	caller, err := c.deps.Verifier.Verify(c.r.Context(), token)
	if err != nil {
		return refuseToken(err)
	}
	c.caller = caller
	return nil
}

// decide says whether the request may be sent.
func (c *call) decide() *refusal {
	var wellFormed bool
	c.target, wellFormed = parseTarget(c.r)
	if c.caller.Kind != identity.KindUser || !validCluster(c.target.cluster) {
		return refuseAccess(c.target.cluster)
	}
	decision, err := c.deps.Access.Check(c.r.Context(), c.question())
	switch {
	case err != nil:
		c.deps.Logger.WarnContext(c.r.Context(), "access not decided", slog.String("error", err.Error()))
		return refuseUndecided(err)
	case !decision.Allowed || decision.User == "":
		return refuseAccess(c.target.cluster)
	case !wellFormed:
		return refusePath()
	case isUpgrade(c.r):
		return refuseUpgrade()
	}
	if c.target.isAgentCall() {
		if refused := c.decideAgentCall(decision.Groups); refused != nil {
			return refused
		}
	}
	c.decision = decision
	return nil
}

func (c *call) question() policy.Question {
	return policy.Question{
		Subject: c.caller.Subject(), Groups: c.caller.Groups, Cluster: c.target.cluster,
		ConnectedUID: c.deps.Table.ConnectedUID(c.target.cluster),
	}
}

// isUpgrade knows requests that want to speak something else than HTTP.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodConnect ||
		r.Header.Get("Upgrade") != "" && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// record writes the decision into the audit log.
func (c *call) record(refused *refusal) error {
	c.trail = audit.Begin(c.deps.Sink, audit.Request{
		ID: c.traceID, Subject: c.caller.Subject(), SubjectUID: c.caller.UID, TokenID: c.caller.TokenID,
		Cluster: c.target.cluster, Method: c.r.Method, URI: c.target.uri(),
		SourceAddress: c.r.RemoteAddr, UserAgent: c.r.UserAgent(),
	})
	decision := audit.Decision{Allowed: refused == nil, User: c.decision.User, Groups: c.decision.Groups}
	if refused != nil {
		decision.Reason = refused.reason
	}
	return c.trail.Decide(c.r.Context(), decision)
}

// finish writes the outcome into the audit log. The request is over by then, and so may be its context.
func (c *call) finish(result audit.Result) {
	ctx := context.WithoutCancel(c.r.Context())
	if err := c.trail.End(ctx, result); err != nil {
		c.deps.Logger.ErrorContext(ctx, "audit record not written", slog.String("error", err.Error()))
	}
}

// carry sends the request to the agent and the answer to the caller.
func (c *call) carry() *refusal {
	stream, err := c.deps.Table.Open(session.Target{
		Cluster: c.target.cluster, ClusterUID: c.decision.ClusterUID, User: c.caller.Subject(),
	})
	if err != nil {
		refused := refuseStream(err, c.target.cluster)
		c.finish(audit.Result{Status: refused.code, Outcome: audit.OutcomeFailed, Reason: refused.reason})
		return refused
	}
	newForward(c, stream).run()
	return nil
}
