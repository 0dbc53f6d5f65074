// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Where an error comes from, so that people know where to look.
const (
	originHub     = "hub"
	originTunnel  = "tunnel"
	originAgent   = "agent"
	originCluster = "cluster"
)

// refusal is an answer that the hub gives itself. Kubernetes clients show its message.
type refusal struct {
	// code is the HTTP status.
	code int
	// kubeReason is the word that Kubernetes has for it; kubectl prints it in parentheses.
	kubeReason string
	// reason is the name of Leat's reason, without its prefix.
	reason string
	// origin is where the error comes from.
	origin string
	// message says what happened and what to do.
	message string
	// retryAfter is how long to wait. Zero means that the request must not be repeated blindly.
	retryAfter time.Duration
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

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
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// write answers the request. Nothing may have been written before.
func (r *refusal) write(w http.ResponseWriter, req *http.Request, cluster, traceID string) {
	if _, path := split(req); (target{path: path}).isAgentCall() {
		r.writeRPC(w, req, traceID)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set(headerContentTypeOptions, "nosniff")
	header.Set(headerErrorOrigin, r.origin)
	header.Set(headerErrorReason, r.reason)
	if r.code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="leat"`)
	}
	if r.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(r.retryAfterSeconds()))
	}
	w.WriteHeader(r.code)
	if req.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(r.status(cluster, traceID)) // nobody is left to tell when it fails
	}
}

func (r *refusal) status(cluster, traceID string) status {
	return status{
		Kind: "Status", APIVersion: "v1", Status: "Failure", Code: r.code, Reason: r.kubeReason,
		Message: fmt.Sprintf("%s (origin: %s, trace id: %s)", r.message, r.origin, traceID),
		Details: statusDetails{
			Name: cluster, Kind: "clusters", RetryAfterSeconds: r.retryAfterSeconds(),
			Causes: []statusCause{{Reason: r.reason, Message: r.message}},
		},
	}
}

// retryAfterSeconds rounds up, so that nobody comes back too early.
func (r *refusal) retryAfterSeconds() int {
	return int((r.retryAfter + time.Second - 1) / time.Second)
}
