// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

// The keys of log and span attributes: the same thing has the same key in both. Names of
// repositories, clusters and services are attributes of logs and spans, never of metrics, where
// each would be its own time series.
const (
	KeyTraceID    = "trace_id"
	KeySpanID     = "span_id"
	KeyRepository = "leat.repository"
	KeyCluster    = "leat.cluster"
	KeyDigest     = "leat.digest"
	KeySubject    = "leat.subject"

	// KeyErrorType holds our reason wherever a failure is reported. Metrics may carry it too.
	KeyErrorType = "error.type"
)
