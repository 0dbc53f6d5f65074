// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import "context"

// Reader is an object's port to the catalog while it is checked: the catalog as the edit has
// changed it so far. It is for one goroutine.
type Reader interface {
	// Get returns an object as stored, a repository with its credential, a service with its
	// secrets. Error: *NotFoundError.
	Get(ctx context.Context, key Key) (Object, error)
	// Clusters returns the existing ones of the named clusters, by path, as stored.
	Clusters(ctx context.Context, names []string) (map[string]Object, error)
	// Count returns the number of the project's objects of that kind.
	Count(ctx context.Context, project string, kind Kind) (int, error)
	// SpecBytes returns how many bytes the specs of the cluster's services have in the store, without
	// the spec of the service named except.
	SpecBytes(ctx context.Context, cluster, except string) (int, error)
}
