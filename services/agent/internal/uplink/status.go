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

// problem is an answer that the agent gives itself.
type problem struct {
	// code is the HTTP status.
	code int
	// kubeReason is the word that Kubernetes has for it, and reason Leat's.
	kubeReason string
	reason     string
	// message says what happened and what to do.
	message string
	// retryAfter is in seconds. Zero: not to be repeated blindly.
	retryAfter int
}

// write answers as an API server would, so that kubectl shows the message, and says that it was the agent.
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
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the caller hung up: there is nobody left to tell
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: message, Reason: metav1.StatusReason(p.kubeReason), Code: int32(p.code),
		Details: &metav1.StatusDetails{
			RetryAfterSeconds: int32(p.retryAfter),
			Causes:            []metav1.StatusCause{{Type: metav1.CauseType(p.reason), Message: p.message}},
		},
	})
}

// traceID is the request's trace, by which the hub's log and audit records know it. It is empty when the request has none.
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
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)) // the log names the trace
	p.logger.WarnContext(ctx, "request could not be passed on",
		slog.String("server", p.name), slog.Any("error", err))
	dialed, timeout := failure(err)
	answer := problem{
		code: http.StatusBadGateway, kubeReason: "BadGateway", reason: "CLUSTER_UNREACHABLE",
		message: "the connection to " + p.name + " failed before it answered; check whether the request took effect before you repeat it",
	}
	switch {
	case !dialed && timeout:
		answer.message = fmt.Sprintf("the agent cannot connect to %s: it does not take the connection within %v; check it and the network",
			p.name, dialTimeout)
		answer.code, answer.kubeReason = http.StatusGatewayTimeout, "Timeout"
	case !dialed:
		answer.message = fmt.Sprintf("the agent cannot connect to %s; check it and the network", p.name)
	case errors.Is(cause, errSilent) || timeout:
		answer.code, answer.kubeReason, answer.reason = http.StatusGatewayTimeout, "Timeout", "DEADLINE_EXCEEDED"
		answer.message = fmt.Sprintf("%s took the request and has not answered within %v; check whether it took effect before you repeat it",
			p.name, p.silences.After())
	}
	answer.write(w, r)
}

// failure tells whether there was a connection at all, and whether time ran out.
func failure(err error) (dialed, timeout bool) {
	var dial *dialError
	var op *net.OpError
	var network net.Error
	dialed = !errors.As(err, &dial) && (!errors.As(err, &op) || op.Op != "dial")
	return dialed, errors.As(err, &network) && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
