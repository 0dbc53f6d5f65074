// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "context"

// Editable is the part of a store that the Editor works on.
type Editable interface {
	// Edit runs fn in one transaction. Edits are serialised over all replicas, so fn sees no change
	// but its own. The writes of fn become visible, whole and durable, when Edit returns nil, and
	// never when fn returns an error, which Edit then returns unchanged. fn may be run more than once.
	// The Tx ends with fn.
	Edit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
}

// Tx is one edit. It is for one goroutine.
type Tx interface {
	Reader
	Finder
	// Revision is the revision of the catalog that this edit makes.
	Revision() int64
	// Put stores the object under its key; one with that key must be there if and only if it has
	// the same UID. A cluster's Agent is not written; a service's SyncRequest is, and its
	// ConfigDigest is made. Of a derived service nothing but the SyncRequest is written.
	Put(ctx context.Context, object Object) error
	// Except stores what an edit with these verbs decides about a derived service beside its global
	// service, and returns it. The decision changes the stored exception, or a new one. Error:
	// *NotFoundError if the service is no longer derived.
	Except(ctx context.Context, service *Service, verbs []string, decide func(*Exception)) (*Exception, error)
	// Departures returns the departures of the members of the global service with that uid.
	Departures(ctx context.Context, globalUID string) (Departures, error)
	// EndDepartures ends them: the global service no longer selects these clusters.
	EndDepartures(ctx context.Context, globalUID string) error
	// Authors returns the authors of the object with that uid; none if it is not known.
	Authors(ctx context.Context, uid string) ([]Author, error)
	// PutAuthors adds authors. One replaces an earlier one of the same object and subject. Of an object, the
	// latest MaxAuthors are kept until it is deleted.
	PutAuthors(ctx context.Context, authors []Author) error
	// Delete removes the object and everything that belongs to it. The object must be there.
	Delete(ctx context.Context, object Object) error
	// AllOf returns all objects of a plain kind, in no order.
	AllOf(ctx context.Context, kind Kind) ([]Plain, error)
	// Dependents returns the keys of objects that name the object, at most ten: services that name a
	// cluster, a repository or a back end, fleet sources that name a repository, and bindings that name
	// a role. Of a project it returns the objects that
	// it holds, at most ten of each kind.
	Dependents(ctx context.Context, key Key) ([]Key, error)
}
