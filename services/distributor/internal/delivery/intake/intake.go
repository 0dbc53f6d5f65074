// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package intake takes what agents report, and stores the reports that arrive together in one
// transaction.
//
// While one transaction is under way the next batch gathers, so a lone report waits for nothing and
// a storm costs few transactions. A report of the cluster alone, which agents send every second
// while pods come and go, waits a moment for others as well: a fleet of them costs no more
// transactions than a few agents do. A caller that hands in a report gets its answer when the
// report is durable, and not before: an agent that got none sends it again.
package intake

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// The bounds of what waits, and of one transaction.
const (
	DefaultMaxWaiting = 4096
	maxWaitingBytes   = 64 << 20
	maxBatch          = 256
	maxBatchBytes     = 8 << 20
	// storeTimeout is how long one transaction may take before the database counts as not
	// answering.
	storeTimeout = 30 * time.Second
	// patience is how long a report that tells of no service waits for others, unless one that does
	// takes it along: too short for people to see.
	patience = 100 * time.Millisecond
)

// ErrBusy means that too many reports wait already. Nothing was stored.
var ErrBusy = errors.New("too many reports wait to be stored")

// Store stores reports; see catalog.Reports.
type Store interface {
	SaveReports(ctx context.Context, reports []catalog.AgentReport) ([]catalog.Receipt, error)
}

// Params are a Queue's collaborators, all required, and its settings.
type Params struct {
	Store Store
	// Stored is called when reports have become durable, before their agents are answered.
	Stored func(ctx context.Context)
	// MaxWaiting is how many reports may wait; zero means DefaultMaxWaiting.
	MaxWaiting int
}

// Queue is the path of reports. It is safe for concurrent use.
type Queue struct {
	p    Params
	wake wake.Signal   // one token when something waits
	done chan struct{} // closed when Run has ended

	mu      sync.Mutex
	waiting []*entry
	bytes   int
	// patience wakes Run for reports that wait for others; nil while there are none.
	patience *time.Timer
}

// entry is one waiting report; answer is written once before answered is closed.
type entry struct {
	report catalog.AgentReport
	// gone is closed when the caller has hung up, and so may be left out.
	gone     <-chan struct{}
	answered chan struct{}
	receipt  catalog.Receipt
	err      error
}

// New returns a Queue that stores nothing before Run.
func New(p Params) *Queue {
	if p.MaxWaiting <= 0 {
		p.MaxWaiting = DefaultMaxWaiting
	}
	return &Queue{p: p, wake: wake.NewSignal(), done: make(chan struct{})}
}

// Take stores a report. Without an error it is durable, unless the receipt reports that it was not
// taken. Errors: ErrBusy; catalog.ErrUnavailable, also when Run has ended; the context's, when it
// ended first: the report may be stored or not.
func (q *Queue) Take(ctx context.Context, report catalog.AgentReport) (catalog.Receipt, error) {
	e := &entry{report: report, gone: ctx.Done(), answered: make(chan struct{})}
	if !q.put(e) {
		return catalog.Receipt{}, ErrBusy
	}
	select {
	case <-e.answered:
		return e.receipt, e.err
	case <-ctx.Done():
		return catalog.Receipt{}, context.Cause(ctx)
	case <-q.done:
		return catalog.Receipt{}, catalog.ErrUnavailable
	}
}

// put makes the report wait, if there is room. One that is alone always finds room.
func (q *Queue) put(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.p.MaxWaiting || len(q.waiting) > 0 && q.bytes+e.report.Bytes > maxWaitingBytes {
		return false
	}
	q.waiting = append(q.waiting, e)
	q.bytes += e.report.Bytes
	switch {
	case !patient(e.report):
		q.wake.Set()
	case q.patience == nil:
		q.patience = time.AfterFunc(patience, q.wake.Set)
	}
	return true
}

// patient reports whether the content of the report is not urgent: it is of the cluster alone.
func patient(r catalog.AgentReport) bool {
	return r.Cluster != nil && !r.Full && len(r.Services) == 0
}

// Run stores what waits, one batch after the other, until ctx is done. It is called once.
func (q *Queue) Run(ctx context.Context) error {
	defer close(q.done)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.wake:
		}
		if batch := q.next(); len(batch) > 0 {
			q.store(ctx, batch)
		}
	}
}

// next takes the next batch from what waits.
func (q *Queue) next() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.patience != nil {
		q.patience.Stop() // all of them are in this batch, or in one that follows at once
		q.patience = nil
	}
	var batch []*entry
	taken, bytes := 0, 0
	for _, e := range q.waiting {
		if len(batch) == maxBatch || len(batch) > 0 && bytes+e.report.Bytes > maxBatchBytes {
			break
		}
		taken++
		q.bytes -= e.report.Bytes
		select {
		case <-e.gone:
		default:
			batch = append(batch, e)
			bytes += e.report.Bytes
		}
	}
	clear(q.waiting[:taken])
	if q.waiting = q.waiting[taken:]; len(q.waiting) > 0 {
		q.wake.Set()
	}
	return batch
}

// store stores a batch and answers each of it.
func (q *Queue) store(ctx context.Context, batch []*entry) {
	if q.save(ctx, batch) {
		q.p.Stored(ctx)
	}
	for _, e := range batch {
		close(e.answered)
	}
}

// save reports whether anything was stored. A batch that the database refuses is halved until the
// report that it refuses is alone, so that no agent fails because of another's; the order stays.
func (q *Queue) save(ctx context.Context, batch []*entry) bool {
	receipts, err := q.transact(ctx, batch)
	switch {
	case err == nil:
		for i, e := range batch {
			e.receipt = receipts[i]
		}
		return true
	case len(batch) > 1 && !errors.Is(err, catalog.ErrUnavailable):
		first := q.save(ctx, batch[:len(batch)/2])
		second := q.save(ctx, batch[len(batch)/2:])
		return first || second
	}
	for _, e := range batch {
		e.err = err
	}
	return false
}

// transact calls the store. A store that takes too long is one that does not answer.
func (q *Queue) transact(ctx context.Context, batch []*entry) ([]catalog.Receipt, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTimeout, catalog.ErrUnavailable)
	defer cancel()
	reports := make([]catalog.AgentReport, len(batch))
	for i, e := range batch {
		reports[i] = e.report
	}
	receipts, err := q.p.Store.SaveReports(ctx, reports)
	if err != nil && ctx.Err() != nil {
		return nil, errors.Join(catalog.ErrUnavailable, err)
	}
	return receipts, err
}
