// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Where an error comes from. It shows people where to look.
const (
	originHub     = "hub"
	originTunnel  = "tunnel"
	originAgent   = "agent"
	originCluster = "cluster"
)

// statusClientGone is the status that proxies use for a caller that went away. Only the audit log
// shows it.
const statusClientGone = 499

// refusal is an answer that the hub gives itself. Kubernetes clients show its message.
type refusal struct {
	// code is the HTTP status.
	code   int
	reason reason.Reason
	// origin is where the error comes from.
	origin string
	// message explains the failure and the remedy.
	message string
	// retryAfter is how long to wait. Zero means that the request must not be repeated blindly.
	retryAfter time.Duration
	// rpcOnly keeps retryAfter from Kubernetes clients. client-go repeats a request that has a
	// Retry-After ten times, and prints nothing meanwhile.
	rpcOnly bool
	// isText answers with the message alone, in place of a Status.
	isText bool
}

// refuse returns a refusal that comes from the hub.
func refuse(code int, why reason.Reason, message string) *refusal {
	return &refusal{code: code, reason: why, origin: originHub, message: message}
}

// from changes the origin.
func (r *refusal) from(origin string) *refusal {
	r.origin = origin
	return r
}

// retryIn sets how long the caller should wait before the next try.
func (r *refusal) retryIn(wait time.Duration) *refusal {
	r.retryAfter = wait
	return r
}

// retryRPCIn sets the same for callers that speak RPC alone. Kubernetes clients show the message at
// once.
func (r *refusal) retryRPCIn(wait time.Duration) *refusal {
	r.retryAfter, r.rpcOnly = wait, true
	return r
}

// shownFor gives the refusal the form in which clients show the message of an answer to that
// target. client-go reads discovery as bytes: of an error it shows the body if that is text, and
// "unknown" or a sentence of its own otherwise. For 503 it has a sentence whatever the body is.
func (r *refusal) shownFor(t target) *refusal {
	if !t.isDiscovery() {
		return r
	}
	if r.isText = true; r.code == http.StatusServiceUnavailable && r.retryAfterSeconds() == 0 {
		r.code = http.StatusBadGateway
	}
	return r
}

// status is the Kubernetes object of kind Status.
type status struct {
	Kind       string        `json:"kind"`
	APIVersion string        `json:"apiVersion"`
	Metadata   struct{}      `json:"metadata"`
	Status     string        `json:"status"`
	Message    string        `json:"message"`
	Reason     string        `json:"reason,omitempty"`
	Details    statusDetails `json:"details"`
	Code       int           `json:"code"`
}

type statusDetails struct {
	Name              string        `json:"name,omitempty"`
	Kind              string        `json:"kind,omitempty"`
	Causes            []statusCause `json:"causes,omitempty"`
	RetryAfterSeconds int           `json:"retryAfterSeconds,omitempty"`
}

type statusCause struct {
	Reason  reason.Reason `json:"reason"`
	Message string        `json:"message"`
}

// write answers the request. Nothing may have been written before. The caller may be gone, so write
// ignores errors.
func (r *refusal) write(w http.ResponseWriter, req *http.Request, cluster, traceID string) {
	header := w.Header()
	header.Set(headerContentTypeOptions, "nosniff")
	header.Set(headerErrorOrigin, r.origin)
	header.Set(headerErrorReason, r.reason.String())
	if _, path := split(req); (target{path: path}).isAgentCall() {
		_ = connect.NewErrorWriter().Write(w, req, r.rpcError(traceID))
		return
	}
	header.Set("Content-Type", "application/json")
	if r.isText {
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	header.Set("Cache-Control", "no-store")
	if r.code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="leat"`)
	}
	if seconds := r.retryAfterSeconds(); seconds > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(r.code)
	switch {
	case req.Method == http.MethodHead:
	case r.isText:
		_, _ = io.WriteString(w, r.text(traceID)+"\n")
	default:
		_ = json.NewEncoder(w).Encode(r.status(cluster, traceID))
	}
}

// text returns the message with where it comes from.
func (r *refusal) text(traceID string) string {
	return fmt.Sprintf("%s (origin: %s, trace id: %s)", r.message, r.origin, traceID)
}

func (r *refusal) status(cluster, traceID string) status {
	return status{
		Kind: "Status", APIVersion: "v1", Status: "Failure", Code: r.code, Reason: r.kubeReason(),
		Message: r.text(traceID),
		Details: statusDetails{
			Name: cluster, Kind: "clusters", RetryAfterSeconds: r.retryAfterSeconds(),
			Causes: []statusCause{{Reason: r.reason, Message: r.message}},
		},
	}
}

// kubeReason returns the word that Kubernetes has for the status. kubectl prints it in parentheses.
func (r *refusal) kubeReason() string {
	switch r.code {
	case statusClientGone:
		return "ClientClosedRequest"
	case http.StatusInternalServerError:
		return "InternalError"
	}
	return strings.ReplaceAll(http.StatusText(r.code), " ", "")
}

// retryAfterSeconds is how long Kubernetes clients are asked to wait, or zero. It rounds up, so
// that no caller comes back too early.
func (r *refusal) retryAfterSeconds() int {
	if r.rpcOnly {
		return 0
	}
	return int((r.retryAfter + time.Second - 1) / time.Second)
}

// rpcError returns the refusal of a call to an agent, which speaks RPC.
func (r *refusal) rpcError(traceID string) error {
	options := []rpcerr.Option{rpcerr.With("origin", r.origin), rpcerr.With("trace_id", traceID)}
	if r.retryAfter > 0 {
		options = append(options, rpcerr.RetryAfter(r.retryAfter))
	}
	return rpcerr.New(r.rpcCode(), errorsv1.Reason(r.reason), r.message, options...)
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
