// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// maxBatch is how many records are written at once.
const maxBatch = 256

// Run writes records until ctx ends, and then the rest within the flush timeout. It returns an
// error if records were lost by that. The queue refuses later records.
func (q *Queue) Run(ctx context.Context) error {
	q.mu.Lock()
	q.running = true
	q.mu.Unlock()
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan struct{})
	go func() { // an output that never returns must not keep the process
		defer close(done)
		q.work(writing, ctx.Done())
	}()
	select {
	case <-done:
	case <-ctx.Done():
		timer := time.NewTimer(q.params.FlushTimeout)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			cancel()
		}
	}
	return q.close(writing)
}

// work writes batch after batch. After stop is closed it writes the rest and returns.
func (q *Queue) work(ctx context.Context, stop <-chan struct{}) {
	stopping := false
	for ctx.Err() == nil {
		batch, others := q.next()
		switch {
		case len(batch) == 0 && !others && stopping:
			return
		case len(batch) > 0 && q.write(ctx, batch):
			continue
		}
		var retry <-chan time.Time
		if len(batch) > 0 { // it is kept
			retry = time.After(q.params.RetryAfter)
		}
		select {
		case <-q.wake: // a new record is a new try
		case <-retry:
		case <-stop:
			stop, stopping = nil, true
		case <-ctx.Done():
		}
	}
}

// next returns the next batch, unless a request is writing.
func (q *Queue) next() (batch []*entry, others bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, others = q.claim()
	q.awaited = others
	return batch, others
}

// claim returns the next batch and reserves it for the caller until write. The records stay in the
// queue until they are written. Records whose requests were refused meanwhile are left out. The
// caller holds the lock.
func (q *Queue) claim() (batch []*entry, others bool) {
	if q.writing {
		return nil, true
	}
	q.entries = slices.DeleteFunc(q.entries, func(e *entry) bool {
		if e.gone {
			q.bytes -= e.size
		}
		return e.gone
	})
	batch = slices.Clone(q.entries[:min(len(q.entries), maxBatch)])
	q.writing = len(batch) > 0
	return batch, false
}

// write writes what was claimed. It reports whether everything was written.
func (q *Queue) write(ctx context.Context, batch []*entry) bool {
	records := make([]*Record, len(batch))
	for i, e := range batch {
		records[i] = e.record
	}
	written, err := q.params.Output.WriteBatch(ctx, records)
	if err == nil {
		written = len(batch)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writing = false
	q.metrics.wrote(ctx, int64(written))
	if q.closed { // the queue did not wait for this output
		return false
	}
	q.entries = slices.Delete(q.entries, 0, written)
	for _, e := range batch[:written] {
		q.settle(e)
	}
	if err == nil {
		q.recover(ctx)
		return true
	}
	q.fail(ctx, err)
	q.refuseWaiting(ctx, err)
	return false
}

// settle removes a written record. A decision whose request was refused meanwhile gets an outcome
// that records this. The caller holds the lock.
func (q *Queue) settle(e *entry) {
	q.bytes -= e.size
	switch {
	case e.gone:
		q.tellRefused(e.record)
	case e.result != nil:
		e.result <- nil
	}
}

// refuseWaiting fails every decision that waits: the output has just failed. The caller holds the
// lock.
func (q *Queue) refuseWaiting(ctx context.Context, cause error) {
	q.entries = slices.DeleteFunc(q.entries, func(e *entry) bool {
		if e.result == nil {
			return false
		}
		if !e.gone {
			e.result <- q.lose(ctx, reasonFailed, cause)
		}
		q.bytes -= e.size
		return true
	})
}

// withdraw records that a request was refused whose decision is already written.
func (q *Queue) withdraw(decision *Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tellRefused(decision)
}

// tellRefused queues the outcome of a request that was not carried out despite its decision. The
// caller holds the lock.
func (q *Queue) tellRefused(decision *Record) {
	if q.closed || !decision.Allowed {
		return
	}
	record := decision.refused()
	e := &entry{record: record, size: record.weight()}
	q.entries = append(q.entries, e)
	q.bytes += e.size
	q.wake.Set()
}

// close refuses everything from now on, and counts the lost records.
func (q *Queue) close(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	lost := len(q.entries)
	q.refuseWaiting(ctx, errClosed)
	q.metrics.lose(ctx, reasonClosed, int64(len(q.entries)))
	q.entries = nil
	if lost > 0 {
		return fmt.Errorf("audit output %s: %d records were not written before the end", q.params.Name, lost)
	}
	return nil
}
