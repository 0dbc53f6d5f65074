// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
)

// call is one request on its way.
type call struct {
	*Handler

	w       *response
	r       *http.Request
	traceID string
	// id is that of the audit records. It is the trace's unless the caller brought one, which others may have, too.
	id string

	caller   identity.Identity
	subject  string // the caller's
	target   target
	decision policy.Decision
	trail    *audit.Trail

	began     time.Time
	reason    string // of an answer of the hub's own
	meter     *quota.Meter
	overdrawn atomic.Pointer[error] // set when the request has to end because of a quota
}

// traceID is what ties an error message, the audit log and the traces together. Without tracing it is a random number.
func traceID(span trace.SpanContext) string {
	if span.HasTraceID() {
		return span.TraceID().String()
	}
	return randomID()
}

func randomID() string {
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
		// The output's queue logs once that it fails. A line for each request would fill the log of a hub whose disk is
		// full.
		c.deps.Logger.DebugContext(c.r.Context(), "audit record not written", slog.String("error", err.Error()))
		return refuseUnrecordedDecision()
	}
	if refused != nil {
		return refused
	}
	return c.carry()
}

func (c *call) authenticate() *refusal {
	token, ok := identity.BearerToken(c.r.Header)
	if !ok && c.r.Header.Get("Authorization") == "" {
		token, ok = protocolToken(c.r)
	}
	if !ok {
		return refuseToken(identity.ErrTokenInvalid)
	}
	caller, err := c.deps.Verifier.Verify(c.r.Context(), token)
	if err != nil {
		return refuseToken(err)
	}
	identity.Verified(c.r.Context())
	c.caller, c.subject = caller, caller.Subject()
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
	}
	if refused := c.checkUpgrade(); refused != nil {
		return refused
	}
	effective, ok := decision.For(c.asks())
	if !ok {
		return refuseRule(c.asks())
	}
	if refused := c.decideKind(effective.Groups); refused != nil {
		return refused
	}
	if r := c.deps.Recorder; r != nil && r.Evades(c.r.Method, c.target.attributes, isUpgrade(c.r)) {
		return refuseEvading()
	}
	c.decision = effective
	return nil
}

// decideKind asks more of requests that are not for the API server, which would decide about the rest itself.
func (c *call) decideKind(groups []string) *refusal {
	switch {
	case c.target.isAgentCall():
		return c.decideAgentCall(groups)
	case c.target.isServiceCall():
		return c.decideServiceCall(groups)
	}
	return nil
}

func (c *call) question() policy.Question {
	return policy.Question{
		Subject: c.subject, SubjectUID: c.caller.UID, Credential: c.caller.Credential, Groups: c.caller.Groups,
		Cluster:      c.target.cluster,
		ConnectedUID: c.deps.Router.ConnectedUID(c.target.cluster),
	}
}

// record writes the decision into the audit log.
func (c *call) record(refused *refusal) error {
	c.trail = audit.Begin(c.deps.Sink, audit.Request{
		ID: c.id, TraceID: c.traceID, Subject: c.subject, SubjectUID: c.caller.UID, TokenID: c.caller.TokenID,
		Cluster: c.target.cluster, Method: c.r.Method, URI: c.target.uri(),
		Attributes:    c.target.attributes,
		SourceAddress: c.r.RemoteAddr, UserAgent: c.r.UserAgent(),
	})
	decision := audit.Decision{Allowed: refused == nil, User: c.decision.User, UID: c.decision.UID, Groups: c.decision.Groups, Extra: c.decision.Extra}
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
	if refused := c.admit(); refused != nil {
		return c.refuseCarrying(refused)
	}
	defer c.meter.Close()
	release, ok := c.uploads.reserve(c.subject, c.r)
	if !ok {
		return c.refuseCarrying(refuseUploads())
	}
	defer release()
	stream, err := c.open()
	if err != nil {
		return c.refuseCarrying(refuseStream(err, c.target.cluster))
	}
	if f := newForward(c, timed{stream: stream, call: c}); isUpgrade(c.r) {
		f.runUpgrade()
	} else {
		c.r.Header.Del("Upgrade") // an offer that nobody has to take, such as HTTP/2 without TLS
		f.run()
	}
	return nil
}

func (c *call) refuseCarrying(refused *refusal) *refusal {
	c.finish(audit.Result{Status: refused.code, Outcome: audit.OutcomeFailed, Reason: refused.reason})
	return refused
}
