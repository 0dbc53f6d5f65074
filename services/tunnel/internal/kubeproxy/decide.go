// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// authenticate sets the caller of a request.
func (h *Handler) authenticate(r *request) *refusal {
	token, ok := identity.BearerToken(r.in.Header)
	if !ok && r.in.Header.Get("Authorization") == "" {
		token, ok = protocolToken(r.in)
	}
	if !ok {
		return refuseToken(identity.ErrTokenInvalid)
	}
	caller, err := h.deps.Verifier.Verify(r.in.Context(), token)
	if err != nil {
		return refuseToken(err)
	}
	identity.Verified(r.in.Context())
	r.caller, r.subject = caller, caller.Subject()
	return nil
}

// decide sets the target of a request, and returns what the request may do there.
func (h *Handler) decide(r *request) (policy.Decision, *refusal) {
	r.target = parseTarget(r.in)
	if r.target.cluster == "" && isBelow(r.in.Host, h.hostSuffix) {
		return policy.Decision{}, refuseHost(h.hostSuffix)
	}
	if r.caller.Kind != identity.KindUser || !ValidName(r.target.cluster) {
		return policy.Decision{}, refuseAccess(r.target.cluster)
	}
	decision, err := h.deps.Access.Check(r.in.Context(), h.question(r))
	switch {
	case err != nil:
		h.deps.Logger.WarnContext(r.in.Context(), "access not decided", slog.String("error", err.Error()))
		return policy.Decision{}, refuseUndecided(err)
	case !decision.Allowed || decision.User == "":
		return policy.Decision{}, refuseAccess(r.target.cluster)
	case !r.target.isContained:
		return policy.Decision{}, refuseField(`the path holds a segment "." or "..", or a malformed escape; write the path without it`)
	}
	if refused := r.checkUpgrade(); refused != nil {
		return policy.Decision{}, refused
	}
	effective, refused := r.effective(decision)
	if refused != nil {
		return policy.Decision{}, refused
	}
	if recorder := h.deps.Recorder; recorder != nil && recorder.Evades(r.in.Method, r.target.attributes, isUpgrade(r.in)) {
		return policy.Decision{}, refuseEvading()
	}
	return effective, nil
}

func (h *Handler) question(r *request) policy.Question {
	return policy.Question{
		Subject: r.subject, SubjectUID: r.caller.UID, Credential: r.caller.Credential, Groups: r.caller.Groups,
		Cluster: r.target.cluster, ConnectedUID: h.deps.Router.ConnectedUID(r.target.cluster),
	}
}

// isStillAllowed checks the decision of a running request again. Without an answer the old decision
// counts: the distributor may be down for longer than a decision is kept, and that must not stop
// running requests.
func (h *Handler) isStillAllowed(ctx context.Context, r *request) bool {
	now, err := h.deps.Access.Check(ctx, h.question(r))
	if err != nil {
		return true
	}
	effective, refused := r.effective(now)
	return refused == nil && effective.Covers(r.decision)
}

// effective returns what a decision gives for this request. Calls to the agent need a permission of
// the hub's own. All other requests are subject to the rules, and calls to services also to a role.
func (r *request) effective(decision policy.Decision) (policy.Decision, *refusal) {
	if r.target.isAgentCall() {
		needs, ok := permissionOf(r.target.path)
		if !ok {
			return policy.Decision{}, refuse(http.StatusNotFound, reason.Unimplemented, "this version of the hub does not know such a call to an agent")
		}
		effective, ok := decision.ForCall(needs)
		if !ok {
			return policy.Decision{}, refusePermission(needs)
		}
		return effective, nil
	}
	effective, ok := decision.For(r.rulesRequest())
	if !ok {
		return policy.Decision{}, refuseRule(r.rulesRequest())
	}
	if r.target.isServiceCall() {
		return effective, r.target.checkServiceCall(effective.Groups)
	}
	return effective, nil
}

// checkUpgrade refuses requests that can never become an upgraded connection.
func (r *request) checkUpgrade() *refusal {
	switch {
	case r.in.Method == http.MethodConnect:
		return refuseField("CONNECT is not a method of a Kubernetes API; use a GET or POST with an Upgrade header over HTTP/1.1")
	case r.in.ProtoMajor != 1 && (isUpgrade(r.in) || r.target.needsUpgrade()):
		return refuseField("exec, attach and port-forward upgrade their connection, which HTTP/2 does not support; use HTTP/1.1")
	case !isUpgrade(r.in):
		return nil
	case r.target.isAgentCall():
		return refuseField("calls to the agent are not upgraded; leave the Upgrade header out")
	case r.in.ContentLength != 0:
		return refuseField("a request with an Upgrade header must not have a body; send the bytes after the 101")
	}
	return nil
}
