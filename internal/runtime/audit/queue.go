// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/kit/timeouts"
	"github.com/leatdev/leat/internal/kit/wake"
)

// linger is how long a record without a waiting request may wait for others.
const linger = 10 * time.Millisecond

// Output writes records where they are kept.
type Output interface {
	// WriteBatch writes records in their order. It returns how many, from the first on, are
	// permanently handed over, and why the others are not. It is called by one goroutine at a time.
	WriteBatch(ctx context.Context, records []*Record) (written int, err error)
}

// Prompt is an [Output] that can report whether a write would wait. If not, the request writes its
// decision itself, which saves two switches between goroutines.
type Prompt interface {
	// Prompt reports whether a batch of about so many bytes would be written without waiting.
	Prompt(bytes int64) bool
}

// Why a record is not written.
var (
	errQueueFull = errors.New("the queue of records is full")
	errTimeout   = errors.New("the record was not written in time")
	errClosed    = errors.New("the audit log is closed")
	errAbandoned = errors.New("another record of the same change was not written")
)

// QueueParams are the collaborators and bounds of a [Queue]. Name, Output, Logger and Meter are
// required.
type QueueParams struct {
	// Name names the output in logs and metrics.
	Name string
	// Output writes the records.
	Output Output
	// Size bounds the records that wait, in bytes. Zero means 16 MiB.
	Size int64
	// Timeout is how long a decision may take to be written. Zero means 5 s.
	Timeout time.Duration
	// RetryAfter is how long after a failure the kept records are tried again if no new record comes.
	// Zero means 1 s.
	RetryAfter time.Duration
	// FlushTimeout is how long the last records may take when the queue ends. Zero means 5 s.
	FlushTimeout time.Duration
	// FailOpen allows requests whose decision is not written.
	FailOpen bool
	// Logger receives failures and recoveries of the output.
	Logger *slog.Logger
	// Meter counts the records that were written and the lost ones.
	Meter metric.Meter
}

func (p QueueParams) withDefaults() QueueParams {
	p.Size = cmp.Or(p.Size, 16<<20)
	p.Timeout = cmp.Or(p.Timeout, 5*time.Second)
	p.RetryAfter = cmp.Or(p.RetryAfter, time.Second)
	p.FlushTimeout = cmp.Or(p.FlushTimeout, 5*time.Second)
	return p
}

// Queue is between requests and one [Output]. It writes all waiting records at once, in the order
// of arrival, so that many requests share one write.
//
// By default it fails closed: Write returns when the decision is written. It fails if that takes
// too long, if the output fails, or if the queue is full. The queue recovers automatically, because
// each decision is a new try. An outcome never waits. It is kept and tried again until it is
// written, and there are never more outcomes than requests that were under way. If the queue fails
// open, no request waits, and records that do not fit are lost and counted.
//
// A Queue is safe for concurrent use.
type Queue struct {
	params  QueueParams
	metrics *queueMetrics
	wake    wake.Signal
	prompt  Prompt // nil: the output is none
	overdue *timeouts.Queue

	mu      sync.Mutex
	running bool // Run was called
	writing bool // a batch is being written
	awaited bool // the writer waits for a request that writes
	entries []*entry
	bytes   int64
	closed  bool
	// failing is why the last record was not written. Nil: the output works, as far as is known.
	failing error
	// lingering is whether the writer will be told soon.
	lingering bool
	lost      int64 // since the output began to fail
}

// entry is a record on its way. gone is guarded by the queue's lock.
type entry struct {
	record *Record
	size   int64
	result chan error // buffered; nil without a waiter
	gone   bool       // the waiters are gone
	batch  []*entry   // what its request has to write itself
}

// NewQueue returns a queue, which writes while [Queue.Run] runs. It fails when the meter refuses
// its instruments.
func NewQueue(params QueueParams) (*Queue, error) {
	q := &Queue{params: params.withDefaults(), wake: wake.NewSignal()}
	q.prompt, _ = params.Output.(Prompt)
	q.overdue = timeouts.NewQueue(q.params.Timeout)
	metrics, err := newQueueMetrics(params, q.waiting)
	if err != nil {
		return nil, err
	}
	q.metrics = metrics
	return q, nil
}

// Write implements [Sink].
func (q *Queue) Write(ctx context.Context, record *Record) error {
	e, err := q.add(ctx, record)
	if err == nil {
		err = q.await(ctx, e)
	}
	if q.params.FailOpen {
		return nil
	}
	return err
}

// add queues a record.
func (q *Queue) add(ctx context.Context, record *Record) (*entry, error) {
	e := &entry{record: record, size: record.weight()}
	waits := record.isPrior() && !q.params.FailOpen
	if waits {
		e.result = make(chan error, 1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, q.lose(ctx, reasonClosed, errClosed)
	case q.bytes+e.size > q.params.Size && (waits || q.params.FailOpen):
		return nil, q.lose(ctx, reasonFull, errQueueFull)
	}
	q.entries = append(q.entries, e)
	q.bytes += e.size
	switch {
	case waits && q.isPrompt():
		e.batch, _ = q.claim()
	case waits || q.bytes > q.params.Size/2:
		q.wake.Set()
	default:
		q.rouseSoon()
	}
	return e, nil
}

// isPrompt reports whether everything in the queue can be written at once. The caller holds the
// lock.
func (q *Queue) isPrompt() bool {
	return q.prompt != nil && q.running && !q.writing && q.failing == nil && len(q.entries) <= maxBatch && q.prompt.Prompt(q.bytes)
}

// rouseSoon is for records without a waiter: they are written with the next decision, or shortly.
// The caller holds the lock.
func (q *Queue) rouseSoon() {
	if q.lingering {
		return
	}
	q.lingering = true
	time.AfterFunc(linger, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.lingering = false
		q.wake.Set()
	})
}

// await waits until a decision is written.
func (q *Queue) await(ctx context.Context, e *entry) error {
	if e.result == nil {
		return nil
	}
	q.carry(ctx, e)
	select {
	case err := <-e.result:
		return err
	default:
	}
	overdue := q.overdue.Add(func() { q.expire(context.WithoutCancel(ctx), e) })
	defer overdue.Stop()
	select {
	case err := <-e.result:
		return err
	case <-ctx.Done():
		return q.abandon(e, fmt.Errorf("wait for audit record: %w", ctx.Err()))
	}
}

// carry writes the batch that was reserved when the entry was added, if there was one.
func (q *Queue) carry(ctx context.Context, e *entry) {
	if e.batch == nil {
		return
	}
	batch := e.batch
	e.batch = nil
	q.write(ctx, batch)
	q.handOver()
}

// handOver leaves to the writer the records that came meanwhile, or could not be written.
func (q *Queue) handOver() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) > 0 || q.awaited {
		q.awaited = false
		q.wake.Set()
	}
}

// expire fails a decision that was not written in time.
func (q *Queue) expire(ctx context.Context, e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(e.result) == 0 && !e.gone {
		e.gone = true
		e.result <- q.lose(ctx, reasonTimeout, errTimeout)
	}
}

// abandon gives up on a decision. One that the output has already gets an outcome when it turns out
// to be written.
func (q *Queue) abandon(e *entry, cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-e.result: // it was written just now
		return err
	default:
	}
	e.gone = true
	return cause
}

// lose counts a record that is not written. The caller holds the lock.
func (q *Queue) lose(ctx context.Context, reason string, cause error) error {
	q.lost++
	q.metrics.lose(ctx, reason, 1)
	q.fail(ctx, cause)
	return fmt.Errorf("audit output %s: %w", q.params.Name, cause)
}

// fail logs the first failure, so that an output that is down does not fill the log. The caller
// holds the lock.
func (q *Queue) fail(ctx context.Context, cause error) {
	isKnown := q.failing != nil
	q.failing = fmt.Errorf("audit output %s: %w", q.params.Name, cause)
	if isKnown {
		return
	}
	q.params.Logger.ErrorContext(ctx, "audit records are not written",
		slog.String("output", q.params.Name), slog.String("error", cause.Error()), slog.Bool("requests_refused", !q.params.FailOpen))
}

// recover logs the end of a failure. The caller holds the lock.
func (q *Queue) recover(ctx context.Context) {
	if q.failing == nil {
		return
	}
	q.params.Logger.InfoContext(ctx, "audit records are written again",
		slog.String("output", q.params.Name), slog.Int64("lost", q.lost))
	q.failing, q.lost = nil, 0
}

// lastFailure returns why the last record was not written, or nil.
func (q *Queue) lastFailure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failing
}

func (q *Queue) waiting() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}
