// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Outcomes that are not reasons.
const (
	// OutcomeOK is the outcome of a change.
	OutcomeOK = "OK"
	// OutcomeRefused selects every other outcome. No record has it.
	OutcomeRefused = "REFUSED"
)

// Entry is a stored record.
type Entry struct {
	// Sequence is its place among all.
	Sequence int64
	ID       string
	Time     time.Time
	// Origin is who made the change, or was refused.
	catalog.Origin
	// Verb is the action on the object that the others name.
	Verb, Kind, Name, Cluster, ObjectUID string
	// Outcome is OutcomeOK, or the name of the reason of the refusal.
	Outcome string
	// Changes are the changed fields, and Omitted how many more there are.
	Changes []audit.FieldChange
	Omitted int
	// Count and Since belong to a summary of refused calls.
	Count int64
	Since time.Time
}

// RPC returns the name of the call without its service.
func (e Entry) RPC() string { return e.Procedure[strings.LastIndexByte(e.Procedure, '/')+1:] }

// EntryOf returns the stored form of a record.
func EntryOf(r *audit.Record) Entry {
	e := Entry{
		ID: r.ID, Time: r.Time, Verb: r.Attributes.Verb, Name: r.Attributes.Name, Cluster: r.Cluster, Outcome: OutcomeOK,
		Origin: catalog.Origin{
			Subject: r.Subject, SubjectUID: r.SubjectUID, TokenID: r.TokenID, SourceAddress: r.SourceAddress, UserAgent: r.UserAgent,
			Procedure: r.URI, TraceID: r.TraceID, Claims: r.Claims,
		},
		Count: r.Count, Since: r.Since,
	}
	if !r.Allowed {
		e.Outcome = r.Reason.String()
	}
	if c := r.Change; c != nil {
		e.TokenLimit = c.TokenLimit
		e.Kind, e.ObjectUID, e.RequestID, e.Credential, e.Reason = c.Kind, c.ObjectUID, c.RequestID, c.Credential, c.StatedReason
		e.Changes, e.Omitted = c.Fields, c.Omitted
	}
	return e
}

// apiGroup is the API group in records of the fleet API.
const apiGroup = "leat.fleet.v1"

// recordOf returns a record of a call, without what became of it.
func recordOf(origin catalog.Origin, asked catalog.Target, at time.Time) *audit.Record {
	id := audit.NewID()
	request := audit.Request{
		ID: id, Cluster: asked.Cluster, TraceID: cmp.Or(origin.TraceID, origin.RequestID, id), Subject: origin.By(), SubjectUID: origin.SubjectUID,
		TokenID: origin.TokenID, Claims: origin.Claims, URI: origin.Procedure, SourceAddress: origin.SourceAddress, UserAgent: origin.UserAgent,
		Attributes: audit.Attributes{Verb: asked.Verb, APIGroup: apiGroup, Resource: resourceOf(asked.Kind), Name: asked.Name},
	}
	if origin.Procedure != "" {
		request.Method = cmp.Or(origin.Method, http.MethodPost)
	}
	return &audit.Record{
		Request: request.Bounded(), Time: at.UTC(),
		Change: &audit.Change{
			RequestID: cmp.Or(origin.RequestID, id), Kind: asked.Kind, Credential: origin.Credential, TokenLimit: origin.TokenLimit, StatedReason: origin.Reason,
		},
	}
}

// resourceOf returns the plural of a kind in lower case, such as "repositories".
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	if stem, ok := strings.CutSuffix(name, "y"); ok {
		return stem + "ies"
	}
	if name == "" {
		return ""
	}
	return name + "s"
}
