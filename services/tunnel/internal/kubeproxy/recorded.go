// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"net/http"

	"go.opentelemetry.io/otel/trace"
)

// requestID is what a request's audit records have in common. A trace that the caller brought may have other requests,
// and the caller could choose one that somebody else's has.
func requestID(parent trace.SpanContext, traceID string) string {
	if !parent.HasTraceID() {
		return traceID
	}
	return randomID()
}

// refuseUnrecordedDecision answers a request that must not be carried out because nobody could tell that it was.
func refuseUnrecordedDecision() *refusal {
	return &refusal{
		code: http.StatusServiceUnavailable, kubeReason: "ServiceUnavailable", reason: "DEPENDENCY_UNAVAILABLE",
		origin: originHub, retryAfter: retrySoon,
		message: "the hub cannot write its audit log, so that the request was not carried out; retry, and tell an administrator",
	}
}
