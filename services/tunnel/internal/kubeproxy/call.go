// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
)

// call is one request on its way, and what became of it.
type call struct {
	handler *Handler
	request request
	answer  response
	traffic traffic
	trail   *audit.Trail
	began   time.Time
	refused *refusal // the answer that the hub gave itself
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, parent, span := h.startSpan(r)
	defer span.End()
	c := &call{
		handler: h, began: time.Now(), answer: response{ResponseWriter: w}, traffic: traffic{totals: h.instruments},
		request: newRequest(r, parent, span.SpanContext()),
	}
	defer func() { endSpan(span, &c.request, &c.answer, c.refused) }()
	if refused := c.serve(); refused != nil {
		c.refuse(refused)
	}
}

// serve carries the request out. It returns a refusal if nothing was written.
func (c *call) serve() *refusal {
	if refused := c.handler.authenticate(&c.request); refused != nil {
		return refused
	}
	decision, refused := c.handler.decide(&c.request)
	c.request.decision = decision
	if err := c.record(refused); err != nil {
		// The output's queue logs once that it fails. A line for each request would fill the log of
		// a hub whose disk is full.
		c.handler.deps.Logger.DebugContext(c.request.in.Context(), "audit record not written", slog.String("error", err.Error()))
		return refuseUnrecordedDecision()
	}
	if refused != nil {
		return refused
	}
	return c.carry()
}

// record writes the decision into the audit log.
func (c *call) record(refused *refusal) error {
	r := &c.request
	c.trail = audit.Begin(c.handler.deps.Sink, audit.Request{
		ID: r.id, TraceID: r.traceID, Subject: r.subject, SubjectUID: r.caller.UID, TokenID: r.caller.TokenID,
		Claims:  r.caller.Claims,
		Cluster: r.target.cluster, Method: r.in.Method, URI: r.target.uri(), Attributes: r.target.attributes.Recorded(),
		SourceAddress: r.in.RemoteAddr, UserAgent: r.in.UserAgent(),
	})
	decision := audit.Decision{
		Allowed: refused == nil,
		User:    r.decision.User, UID: r.decision.UID, Groups: r.decision.Groups, Extra: r.decision.Extra,
	}
	if refused != nil {
		decision.Reason = refused.reason
	}
	return c.trail.Decide(r.in.Context(), decision)
}

// finish writes the outcome into the audit log. The request is over by then, and its context may
// be.
func (c *call) finish(result audit.Result) {
	ctx := context.WithoutCancel(c.request.in.Context())
	if err := c.trail.End(ctx, result); err != nil {
		c.handler.deps.Logger.ErrorContext(ctx, "audit record not written", slog.String("error", err.Error()))
	}
}

// refuse answers the caller in place of the cluster.
func (c *call) refuse(refused *refusal) {
	c.refused = refused.shownFor(c.request.target)
	c.handler.instruments.reject(c.request.in.Context(), refused)
	refused.write(&c.answer, c.request.in, c.request.target.cluster, c.request.traceID)
}

// carry sends the request to the agent and the answer to the caller. Whatever happens, it records
// an outcome.
func (c *call) carry() *refusal {
	refused := c.exchange()
	if refused != nil {
		refused = refused.shownFor(c.request.target)
		c.finish(audit.Result{Status: refused.code, Outcome: audit.OutcomeFailed, Reason: refused.reason})
	}
	return refused
}

// exchange reserves what the request needs and carries it. It returns a refusal if there is no
// room.
func (c *call) exchange() *refusal {
	h, r := c.handler, &c.request
	meter, err := h.deps.Quota.Admit(r.subject, r.clusterKey())
	if err != nil {
		return refuseQuota(err)
	}
	defer meter.Close()
	c.traffic.meter = meter
	c.answer.moved = c.traffic.send
	release, ok := h.uploads.reserve(r.subject, r.in)
	if !ok {
		return refuseUploads()
	}
	defer release()
	stream, err := h.open(r)
	if err != nil {
		return refuseStream(err, r.target.cluster)
	}
	x := &exchange{
		handler: h, call: c, request: r, answer: &c.answer, traffic: &c.traffic, stream: stream, linger: func() {},
	}
	if isUpgrade(r.in) {
		x.runUpgrade()
		return nil
	}
	r.in.Header.Del("Upgrade") // an offer that need not be taken, such as HTTP/2 without TLS
	x.run()
	return nil
}
