// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
)

// HubSubject is the subject of what the hub does itself.
const HubSubject = "service:distributor"

// Origin is where a change of the catalog comes from: who makes it, in which call, and why. The zero
// Origin is the hub itself.
type Origin struct {
	// Subject and SubjectUID are the caller, such as "user:ada".
	Subject    string
	SubjectUID string
	// TokenID is the token of the call, and Credential what that was issued for.
	TokenID    string
	Credential string
	// TokenLimit describes the limit of the API token behind the call. Empty: it has none.
	TokenLimit string
	// Claims describe the workload that the token was issued to. Nil for others.
	Claims map[string]string
	// SourceAddress and UserAgent are the caller's.
	SourceAddress string
	UserAgent     string
	// Procedure is the RPC, or the path of a page.
	Procedure string
	// Method is the method of the request; empty: POST, as of every call.
	Method string
	// RequestID names the call, and TraceID its trace.
	RequestID string
	TraceID   string
	// Reason is why the caller makes the change, in their words.
	Reason string
	// Asked is the subject of the call, for changes that do not name an object themselves.
	Asked Target
}

// Target is the object that a call names.
type Target struct {
	Verb, Kind, Name string
	// Cluster is the one that a service is named with, as people write it; empty otherwise.
	Cluster string
}

// By returns who makes the change.
func (o Origin) By() string { return cmp.Or(o.Subject, HubSubject) }

type originKey struct{}

// WithOrigin returns a context whose edits come from origin.
func WithOrigin(ctx context.Context, origin Origin) context.Context {
	return context.WithValue(ctx, originKey{}, origin)
}

// OriginOf returns where the edits of a context come from. A context without an origin is the hub's.
func OriginOf(ctx context.Context) Origin {
	origin, _ := ctx.Value(originKey{}).(Origin)
	return origin
}
