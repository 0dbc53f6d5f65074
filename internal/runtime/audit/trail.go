// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
)

// Trail is the pair of records of one request. It is not safe for concurrent use.
type Trail struct {
	sink     Sink
	began    time.Time
	decision Record
}

// NewID returns a random id for the records of a request.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails, according to its documentation
	return hex.EncodeToString(id[:])
}

// Begin starts the trail of a request.
func Begin(sink Sink, request Request) *Trail {
	return &Trail{sink: sink, began: time.Now(), decision: Record{Request: request.Bounded(), Phase: PhaseDecision}}
}

// Decide records the decision, once. The request must not be carried out when it fails.
func (t *Trail) Decide(ctx context.Context, d Decision) error {
	r := &t.decision
	r.Time, r.Allowed, r.Reason = time.Now(), d.Allowed, d.Reason
	r.ImpersonatedUser, r.ImpersonatedUID, r.ImpersonatedGroups, r.ImpersonatedExtra = d.User, d.UID, d.Groups, d.Extra
	return t.sink.Write(ctx, r)
}

// Hop records that a replica carries out a request that another replica has passed on. If Hop
// fails, the request must not be carried out. The record's subject is the calling replica's
// service, and its subject uid the name of that replica. d holds what the calling replica asked
// for: this replica does not decide.
func Hop(ctx context.Context, sink Sink, request Request, d Decision) error {
	return sink.Write(ctx, &Record{
		Request: request.Bounded(), Phase: PhaseHop, Time: time.Now(), Allowed: d.Allowed,
		ImpersonatedUser: d.User, ImpersonatedUID: d.UID, ImpersonatedGroups: d.Groups, ImpersonatedExtra: d.Extra,
	})
}

// isPrior reports whether a record must be written before its request is carried out.
func (r *Record) isPrior() bool {
	return r.Phase == PhaseDecision || r.Phase == PhaseHop || r.Phase == PhaseChange
}

// Decision holds the fields that the first record adds to the request.
type Decision struct {
	// Allowed reports whether the request is carried out.
	Allowed bool
	// Reason is why not.
	Reason reason.Reason
	// User, UID, Groups and Extra are whom to impersonate. They must not change any more.
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Result holds the fields that the second record adds to the first.
type Result struct {
	// Connection is the id of the agent's connection. Empty means that none carried the request.
	Connection string
	// Status is the HTTP status. Zero means none.
	Status int
	// BytesIn and BytesOut count the bodies.
	BytesIn  int64
	BytesOut int64
	// Outcome is how the request ended. Reason is why, unless Outcome does.
	Outcome Outcome
	Reason  reason.Reason
}

// End records the outcome.
func (t *Trail) End(ctx context.Context, result Result) error {
	record := t.decision
	record.Phase, record.Time = PhaseOutcome, time.Now()
	record.Reason = result.Reason
	record.Connection, record.Status = result.Connection, result.Status
	record.BytesIn, record.BytesOut = result.BytesIn, result.BytesOut
	record.Duration, record.Outcome = time.Since(t.began), result.Outcome
	return t.sink.Write(ctx, &record)
}
