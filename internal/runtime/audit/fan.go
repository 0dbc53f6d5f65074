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

// WriteAll writes records that count together, such as the records of one edit, each of which must
// be on record before anything is done. They share the writes of each output. If WriteAll fails,
// nothing that they record must be done: an outcome that records the failure follows each written
// record.
func (f Fan) WriteAll(ctx context.Context, records []*Record) error {
	all := make([]*pending, len(records))
	for i, record := range records {
		all[i] = f.add(ctx, record)
	}
	// A record may have to be written together with those before it, so it must not wait for them.
	for _, p := range all {
		f.carry(ctx, p)
	}
	var refused error
	for _, p := range all {
		if refused == nil {
			refused = f.await(ctx, p)
		} else {
			f.abandon(p)
		}
	}
	if refused == nil {
		return nil
	}
	for _, p := range all {
		f.withdraw(p)
	}
	return refused
}

// Write implements [Sink].
func (f Fan) Write(ctx context.Context, record *Record) error {
	return f.WriteAll(ctx, []*Record{record})
}

// pending is a record on its way to every output.
type pending struct {
	record  *Record
	entries []*entry
	errs    []error // nil where the output has the record
}

func (f Fan) add(ctx context.Context, record *Record) *pending {
	p := &pending{record: record, entries: make([]*entry, len(f)), errs: make([]error, len(f))}
	for i, q := range f {
		p.entries[i], p.errs[i] = q.add(ctx, record)
	}
	return p
}

// carry writes what the record's addition has reserved.
func (f Fan) carry(ctx context.Context, p *pending) {
	for i, q := range f {
		if p.errs[i] == nil {
			q.carry(ctx, p.entries[i])
		}
	}
}

// abandon no longer waits for a record.
func (f Fan) abandon(p *pending) {
	for i, q := range f {
		if p.errs[i] == nil && p.entries[i].result != nil {
			p.errs[i] = q.abandon(p.entries[i], errAbandoned)
		}
	}
}

// await returns why an output that fails closed does not have the record.
func (f Fan) await(ctx context.Context, p *pending) error {
	var refused error
	for i, q := range f {
		if p.errs[i] == nil {
			p.errs[i] = q.await(ctx, p.entries[i])
		}
		if !q.params.FailOpen {
			refused = errors.Join(refused, p.errs[i])
		}
	}
	return refused
}

// withdraw has each output that has the record note that its request was refused.
func (f Fan) withdraw(p *pending) {
	if !p.record.isPrior() {
		return
	}
	for i, q := range f {
		if p.errs[i] == nil {
			q.withdraw(p.record)
		}
	}
}

// Failing returns why an output that fails closed did not write its last record, or nil. It waits for
// nothing. The output is tried again with the next record.
func (f Fan) Failing() error {
	var failing error
	for _, q := range f {
		if !q.params.FailOpen {
			failing = errors.Join(failing, q.lastFailure())
		}
	}
	return failing
}

// Withdraw records that a change was not made although its record is written: the commit failed.
func (f Fan) Withdraw(records []*Record) {
	for _, record := range records {
		for _, q := range f {
			q.withdraw(record)
		}
	}
}
