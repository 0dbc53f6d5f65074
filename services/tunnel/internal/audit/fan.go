// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
)

// Fan is a [Sink] that writes each record to several outputs. A decision counts as written when all
// have it that fail closed. An empty Fan keeps nothing.
type Fan []*Queue

var _ Sink = Fan(nil)

// Write implements [Sink].
func (f Fan) Write(ctx context.Context, record *Record) error {
	entries, errs := make([]*entry, len(f)), make([]error, len(f))
	for i, q := range f {
		entries[i], errs[i] = q.add(ctx, record)
	}
	for i, q := range f {
		if errs[i] == nil {
			errs[i] = q.await(ctx, entries[i])
		}
	}
	var refused error
	for i, q := range f {
		if !q.params.FailOpen {
			refused = errors.Join(refused, errs[i])
		}
	}
	if refused == nil || !record.isPrior() {
		return refused
	}
	for i, q := range f {
		if errs[i] == nil {
			q.withdraw(record)
		}
	}
	return refused
}
