// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import "context"

// Store keeps records in the cluster. A save is atomic: a reader sees the old record or the new
// one. Methods may be called concurrently for different services.
type Store interface {
	// List returns all records, with the marks that people put on them. One unreadable record is an
	// error: pruning must not start from half the truth.
	List(ctx context.Context) ([]Record, error)
	// Save replaces the service's record.
	Save(ctx context.Context, record Record) error
	// Delete removes a service's record. A missing record is not an error.
	Delete(ctx context.Context, service string) error
}
