// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
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

// unreachable answers in the server's place.
func (p *proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	cause := context.Cause(r.Context())
	if cause != nil && !errors.Is(cause, errSilent) && !errors.Is(cause, errHints) {
		return // the caller is gone
	}
	// The log names the trace.
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	p.logger.WarnContext(ctx, "request could not be forwarded",
		slog.String("server", p.name), slog.Any("error", err))
	dialed, timeout := classify(err)
	answer := problem{
		code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "CLUSTER_UNREACHABLE",
		message: "the connection to " + p.name + " failed before it answered; check whether the request took effect before you repeat it",
	}
	switch {
	case !dialed && timeout:
		answer.message = fmt.Sprintf("the agent cannot connect to %s: it does not accept the connection within %v; check it and the network",
			p.name, dialTimeout)
		answer.code, answer.kubeReason = http.StatusGatewayTimeout, "Timeout"
	case !dialed:
		answer.message = fmt.Sprintf("the agent cannot connect to %s; check it and the network", p.name)
	case errors.Is(cause, errSilent) || timeout:
		answer.code, answer.kubeReason, answer.reason = http.StatusGatewayTimeout, "Timeout", "DEADLINE_EXCEEDED"
		answer.message = fmt.Sprintf("%s received the request and has not answered within %v; check whether it took effect before you repeat it",
			p.name, p.silences.After())
	}
	answer.write(w, r)
}

// classify reports whether the dial failed, and whether a timeout ended the request.
func classify(err error) (dialed, timeout bool) {
	var dial *dialError
	var op *net.OpError
	var network net.Error
	dialed = !errors.As(err, &dial) && (!errors.As(err, &op) || op.Op != "dial")
	return dialed, errors.As(err, &network) && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
