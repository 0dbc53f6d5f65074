// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy answers who may reach which cluster, and as whom the cluster's API server sees
// them. The decision is made elsewhere, behind the port [Access]; this package remembers it for a
// stated time, so that a burst of requests costs one question and an outage of the one who decides
// does not lock people out at once.
package policy

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// Access decides. Check may be called concurrently. A refusal is a [Decision], not an error; an
// error means that there is no decision, and wraps [ErrUnavailable] when asking again later may
// help.
type Access interface {
	Check(ctx context.Context, q Question) (Decision, error)
}

// ErrUnavailable means that no decision could be obtained.
var ErrUnavailable = errors.New("access decision unavailable")

// Question is who wants to reach what.
type Question struct {
	// Subject is the person, such as "user:ada".
	Subject string
	// SubjectUID is the person's uid, and Credential what the token was given for, both as the
	// token states them. Either may be empty.
	SubjectUID string
	Credential string
	// Groups are the person's groups as the token states them.
	Groups []string
	// Cluster is the cluster's full name. If it is empty, the question is about the hub itself.
	Cluster string
	// ConnectedUID is the uid under which the cluster's newest agent is connected, or empty while
	// none is. It is no part of the question itself: a remembered permission about another uid was
	// given before the agent enrolled again, and is asked for again.
	ConnectedUID string
}

// Decision is an answer.
type Decision struct {
	// Allowed reports whether the person may reach the cluster at all. It is false for a cluster that
	// does not exist.
	Allowed bool
	// User, UID, Groups and Extra are the identity to impersonate in all requests. UID may be
	// empty.
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Narrowed reports that a request is refused which none of the Grants lets through.
	Narrowed bool
	// Grants count for some requests only; see For.
	Grants []Grant
	// Permissions are the hub's own permissions that the person has for everything in the cluster, or
	// in the hub.
	Permissions []Permission
	// ClusterUID is the cluster that the decision is about, should the name be given to another
	// one.
	ClusterUID string
	// MaxAge is for how long the one who decides lets the answer be kept. Zero means that it set none.
	MaxAge time.Duration
}

// key is different for different questions: every part is preceded by its length. Groups are a set,
// so their order does not count.
func (q Question) key() string {
	groups := slices.Clone(q.Groups)
	slices.Sort(groups)
	key := make([]byte, 0, 256) // enough for most
	for _, part := range append([]string{q.Subject, q.SubjectUID, q.Credential, q.Cluster}, slices.Compact(groups)...) {
		key = strconv.AppendInt(key, int64(len(part)), 10)
		key = append(key, ':')
		key = append(key, part...)
	}
	return string(key)
}
