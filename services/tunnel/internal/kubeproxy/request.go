// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/http/httpguts"

	"github.com/leatdev/leat/internal/contract/accessrule"
	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
)

// request is a caller's request, the person it is for, and the decision. It is complete when the
// decision is recorded, and never changes afterwards.
type request struct {
	in *http.Request
	// traceID ties an error message, the audit log and the traces together.
	traceID string
	// id is the ID of the audit records. It is the trace's, unless the caller brought the trace: such
	// a trace may have other requests, and a caller could choose the ID of another caller's request.
	id string

	caller   identity.Identity
	subject  string // the caller's
	target   target
	decision policy.Decision
}

// newRequest returns the request before anything is known about its caller. Parent is the caller's
// trace and span the hub's own. Without tracing, the trace id is a random number.
func newRequest(in *http.Request, parent, span trace.SpanContext) request {
	r := request{in: in}
	if span.HasTraceID() {
		r.traceID = span.TraceID().String()
	} else {
		r.traceID = audit.NewID()
	}
	r.id = r.traceID
	if parent.HasTraceID() {
		r.id = audit.NewID()
	}
	return r
}

// rulesRequest returns the attributes that access rules read, of a request that is not a call to
// the agent.
func (r *request) rulesRequest() accessrule.Request {
	a := r.target.attributes
	return accessrule.Request{
		Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Path: a.NonResourceURL,
	}
}

// clusterKey returns the name under which the cluster is counted and watches are shared. Two
// clusters of one name, one after the other, have different uids.
func (r *request) clusterKey() string { return r.target.cluster + " " + r.decision.ClusterUID }

// isUpgrade reports whether a request wants to speak another protocol than HTTP. A client that
// offers HTTP/2 without TLS accepts HTTP/1.1 as well.
func isUpgrade(r *http.Request) bool {
	protocol := r.Header.Get("Upgrade")
	return protocol != "" && !strings.EqualFold(protocol, "h2c") &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}
