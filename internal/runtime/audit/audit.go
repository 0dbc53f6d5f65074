// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit records which caller reached what, and who changed what. The tunnel and the
// distributor share the form of a record, the ways to write it, and its guarantees.
//
// Every proxied request leaves two records with one id: the decision, before anything is sent to
// the cluster, and the outcome, when the last byte has passed. A refused request leaves only a
// decision. If another replica of the tunnel has the agent's connection, that replica writes a
// third record. The decision is written before the request is carried out. So when the process
// dies, outcomes may be lost, but not the decision of a request that was carried out.
//
// Every change of the catalog leaves one record, before the change is committed. If the commit then
// fails, an outcome with the same id follows.
package audit

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Sink takes records, which must not change afterwards. Write returns when a decision is
// permanently handed over. A request whose decision it refuses must not be carried out. Write does
// not wait for outcomes. It may be called concurrently.
type Sink interface {
	Write(ctx context.Context, record *Record) error
}

// Phase tells a request's two records apart.
type Phase string

// The phases of a request.
const (
	// PhaseDecision is the record before the request is sent to the cluster.
	PhaseDecision Phase = "decision"
	// PhaseOutcome is the record after its end.
	PhaseOutcome Phase = "outcome"
	// PhaseHop is the record of the replica that has the agent's connection, for a request that
	// another replica passes on. The other replica records the decision and the outcome. This
	// record exists in case an attacker impersonates a replica. See [Hop].
	PhaseHop Phase = "hop"
	// PhaseSummary is the record of one person's refused requests that have no records of their
	// own. See [Damper].
	PhaseSummary Phase = "summary"
	// PhaseChange is the record of a change of the catalog, written before the change is committed.
	// Its [Change] holds what changed.
	PhaseChange Phase = "change"
)

// Request holds the fields that both records of a request have.
type Request struct {
	// ID is common to both records and unique otherwise.
	ID string
	// TraceID is the ID in error messages. It is the ID unless the caller brought a trace, which may
	// have many requests.
	TraceID string
	// Subject is the person, such as "user:ada", and SubjectUID the person's uid.
	Subject    string
	SubjectUID string
	// TokenID identifies the token that was used.
	TokenID string
	// Claims describe the workload that the token was issued to, by name. Nil: it was not issued to a
	// workload.
	Claims map[string]string
	// Cluster is the cluster that was asked for.
	Cluster string
	// Method and URI are the request's, the URI without the part that names the cluster.
	Method string
	URI    string
	// Attributes describe the request as an API server reads it.
	Attributes Attributes
	// SourceAddress is the address of the caller, and UserAgent what it calls itself.
	SourceAddress string
	UserAgent     string
}

// Attributes describe a request, in the words of Kubernetes. For the hub's own API the group is the
// package of the API, such as "leat.fleet.v1".
type Attributes struct {
	// Verb is the action. It is empty when a method means nothing for resources.
	Verb string
	// APIGroup and APIVersion are the resource's. The core group is empty.
	APIGroup   string
	APIVersion string
	// Resource is the object of the action, such as "pods".
	Resource string
	// Subresource is a part of the resource, such as "exec". Empty means the resource itself.
	Subresource string
	// Namespace is empty for resources outside namespaces and for requests across all of them.
	Namespace string
	// Name is the object's.
	Name string
}

// Record is one entry of the log.
type Record struct {
	Request
	// Change is set in records of the hub's own API, of every phase. Nil: the request was for a
	// cluster, and the fields about impersonation belong to the record.
	Change *Change

	// Phase decides which fields below are set.
	Phase Phase
	// Time is when the record was made.
	Time time.Time

	// Allowed is the decision.
	Allowed bool
	// Reason is why a request was refused or could not be carried out. Zero: there is no reason.
	Reason reason.Reason
	// ImpersonatedUser, ImpersonatedUID, ImpersonatedGroups and ImpersonatedExtra are whom the
	// cluster's API server saw.
	ImpersonatedUser   string
	ImpersonatedUID    string
	ImpersonatedGroups []string
	ImpersonatedExtra  map[string][]string

	// Connection is the id of the agent's connection that carried the request. Empty means none
	// did.
	Connection string
	// Status is the HTTP status that the caller got. Zero means that the caller was gone before
	// there was one.
	Status int
	// BytesIn and BytesOut count the bodies of request and response.
	BytesIn  int64
	BytesOut int64
	// Duration is how long the request took.
	Duration time.Duration
	// Outcome is how it ended.
	Outcome Outcome

	// Count is how many requests a summary stands for. All other fields are copied from the first of
	// them, made at Since.
	Count int64
	Since time.Time
}

// weight is about how much memory a record takes.
func (r *Record) weight() int64 {
	const fixed = 768
	size := fixed + len(r.URI)*2 + len(r.UserAgent) + len(r.Subject) + len(r.Cluster) + len(r.ImpersonatedUser) + len(r.ImpersonatedUID)
	for _, group := range r.ImpersonatedGroups {
		size += len(group)
	}
	for key, values := range r.ImpersonatedExtra {
		size += len(key)
		for _, value := range values {
			size += len(value)
		}
	}
	for name, value := range r.Claims {
		size += len(name) + len(value)
	}
	return int64(size) + r.Change.weight()
}

// refused is the outcome of a request whose decision was written, but too late or not everywhere.
func (r *Record) refused() *Record {
	outcome, now := *r, time.Now()
	outcome.Duration, outcome.Time = now.Sub(r.Time), now
	outcome.Phase, outcome.Outcome = PhaseOutcome, OutcomeFailed
	outcome.Status, outcome.Reason = statusUnavailable, reason.DependencyUnavailable
	return &outcome
}

// statusUnavailable is HTTP's.
const statusUnavailable = 503

// Outcome is how a request ended.
type Outcome string

// The ways a request ends.
const (
	// OutcomeCompleted is a response that was delivered whole, whatever its status.
	OutcomeCompleted Outcome = "completed"
	// OutcomeCanceled is a caller that went away first.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeFailed is a request that the hub answered itself, because the agent or its connection
	// could not.
	OutcomeFailed Outcome = "failed"
	// OutcomeInterrupted is a response that broke off in the middle.
	OutcomeInterrupted Outcome = "interrupted"
	// OutcomeDrained is a watch that the hub closed because it shuts down.
	OutcomeDrained Outcome = "drained"
	// OutcomeRevoked is a request that the hub ended because its permission was withdrawn.
	OutcomeRevoked Outcome = "revoked"
	// OutcomeExceeded is a request that the hub ended because a quota of bytes was used up twice
	// over.
	OutcomeExceeded Outcome = "exceeded"
	// OutcomeStalled is a request that the hub ended because its caller took nothing of the answer.
	OutcomeStalled Outcome = "stalled"
)
