// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// problem is an answer of the agent itself.
type problem struct {
	// code is the HTTP status.
	code int
	// kubeReason is the reason in Kubernetes' terms, and reason in Leat's.
	kubeReason string
	reason     string
	// message describes what happened and what to do.
	message string
	// retryAfter is in seconds. Zero: the request should not be repeated blindly.
	retryAfter int
}

// write answers as an API server would, so that kubectl shows the message, and names the agent as
// the origin.
func (p problem) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set(headerErrorOrigin, originAgent)
	header.Set(headerErrorReason, p.reason)
	if p.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	message := fmt.Sprintf("%s (origin: %s)", p.message, originAgent)
	if id := traceID(r); id != "" {
		message = fmt.Sprintf("%s (origin: %s, trace id: %s)", p.message, originAgent, id)
	}
	w.WriteHeader(p.code)
	if r.Method == http.MethodHead {
		return
	}
	_ = json.NewEncoder(w).Encode(metav1.Status{ // an error means that the caller hung up
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: metav1.StatusReason(p.kubeReason), Code: int32(p.code),
		Details: &metav1.StatusDetails{
			RetryAfterSeconds: int32(p.retryAfter),
			Causes:            []metav1.StatusCause{{Type: metav1.CauseType(p.reason), Message: p.message}},
		},
	})
}

// traceID returns the trace of the request, by which the hub's log and audit records identify it,
// or "" if the request has no trace.
func traceID(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Traceparent"), "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}
