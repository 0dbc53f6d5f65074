// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit records who reached what. Every proxied request leaves two records with one id: the decision before
// anything is sent to the cluster, and the outcome when the last byte has passed. A refused request leaves a decision
// only. Records are written in line with the request: a request whose decision cannot be recorded is not carried out.
package audit

import (
	"context"
	"time"
)

// Sink takes records. Write returns when the record is handed over for good, and may be called concurrently.
type Sink interface {
	Write(ctx context.Context, record Record) error
}

// Phase says which of a request's two records this is.
type Phase string

// The phases of a request.
const (
	// PhaseDecision is the record before the request is sent to the cluster.
	PhaseDecision Phase = "decision"
	// PhaseOutcome is the record after its end.
	PhaseOutcome Phase = "outcome"
)

// Request is what both records of a request say about it.
type Request struct {
	// ID is common to both records and unique otherwise. It is the trace id that error messages show.
	ID string
	// Subject is the person, such as "user:ada", and SubjectUID the person's uid.
	Subject    string
	SubjectUID string
	// TokenID identifies the token that was used.
	TokenID string
	// Cluster is the cluster that was asked for.
	Cluster string
	// Method and URI are the request's, the URI without the part that names the cluster.
	Method string
	URI    string
	// SourceAddress is the address of the caller, and UserAgent what it calls itself.
	SourceAddress string
	UserAgent     string
}

// Record is one entry of the log.
type Record struct {
	Request

	// Phase says which fields below are set.
	Phase Phase
	// Time is when the record was made.
	Time time.Time

	// Allowed is the decision.
	Allowed bool
	// Reason says why a request was refused or could not be carried out. Empty means that there is nothing to say.
	Reason string
	// ImpersonatedUser and ImpersonatedGroups are whom the cluster's API server saw.
	ImpersonatedUser   string
	ImpersonatedGroups []string

	// Connection is the id of the agent's connection that carried the request. Empty means none did.
	Connection string
	// Status is the HTTP status that the caller got. Zero means that the caller was gone before there was one.
	Status int
	// BytesIn and BytesOut count the bodies of request and response.
	BytesIn  int64
	BytesOut int64
	// Duration is how long the request took.
	Duration time.Duration
	// Outcome says how it ended.
	Outcome Outcome
}

// Outcome says how a request ended.
type Outcome string

// The ways a request ends.
const (
	// OutcomeCompleted is a response that was delivered whole, whatever its status.
	OutcomeCompleted Outcome = "completed"
	// OutcomeCanceled is a caller that went away first.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeFailed is a request that the hub answered itself, because the agent or its connection could not.
	OutcomeFailed Outcome = "failed"
	// OutcomeInterrupted is a response that broke off in the middle.
	OutcomeInterrupted Outcome = "interrupted"
	// OutcomeDrained is a watch that the hub closed because it shuts down.
	OutcomeDrained Outcome = "drained"
	// OutcomeRevoked is a request that the hub ended because its permission was withdrawn.
	OutcomeRevoked Outcome = "revoked"
)
