// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import "context"

// Store keeps tables of fingerprints across restarts. It is a cache: a lost table only makes the
// next run of its service slower. Methods may be called concurrently for different services.
type Store interface {
	// Load returns the table that was saved last for a service, or nil if there is no readable one.
	Load(ctx context.Context, service string) Table
	// Save replaces the table. After a crash a reader sees the old table or the new one.
	Save(ctx context.Context, service string, table Table) error
	// Delete removes the table. A missing table is not an error.
	Delete(ctx context.Context, service string) error
}

// Discard is a Store that keeps nothing.
type Discard struct{}

// Load implements Store.
func (Discard) Load(context.Context, string) Table { return nil }

// Save implements Store.
func (Discard) Save(context.Context, string, Table) error { return nil }

// Delete implements Store.
func (Discard) Delete(context.Context, string) error { return nil }
