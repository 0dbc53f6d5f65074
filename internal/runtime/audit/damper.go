// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// refusalsEach and refusalsEvery bound the records of one person's refused requests. They are far
// above what a person causes by mistake.
const (
	refusalsEach  = 60
	refusalsEvery = time.Minute
)

// Damping is how a [Damper] bounds records.
type Damping struct {
	// Each is how many refusing decisions with one key pass within Every.
	Each  int
	Every time.Duration
	// Key returns by what decisions are counted. The damper keeps a count for each key that it has
	// seen within Every, so callers must not be able to make them up.
	Key func(*Record) string
}

// Damper is a [Sink] in front of another one. It passes on the first 60 refusing decisions of each
// person in a minute, or as many as its [Damping] allows. It counts the others and writes them as
// one summary at the end of the minute. So a caller cannot fill the log with refused requests, and
// every refused request is accounted for. Decisions that allow a request, and outcomes, always
// pass.
//
// It is safe for concurrent use. It keeps a person's count for a minute.
type Damper struct {
	sink    Sink
	logger  *slog.Logger
	damping Damping

	mu     sync.Mutex
	closed bool
	people map[string]*refusals // by key
}

// refusals are one person's refused requests in the minute that began with the first one.
type refusals struct {
	timer   *time.Timer
	passed  int
	summary *Record // of the requests that were not passed on; nil: all were
}

var _ Sink = (*Damper)(nil)

// NewDamper returns a damper in front of sink. logger logs summaries that could not be written.
func NewDamper(sink Sink, logger *slog.Logger) *Damper {
	return NewDamperOf(sink, logger, Damping{Each: refusalsEach, Every: refusalsEvery, Key: func(r *Record) string { return r.Subject }})
}

// NewDamperOf returns a damper that counts by damping.
func NewDamperOf(sink Sink, logger *slog.Logger, damping Damping) *Damper {
	return &Damper{sink: sink, logger: logger, damping: damping, people: map[string]*refusals{}}
}

// Write implements [Sink].
func (d *Damper) Write(ctx context.Context, record *Record) error {
	if record.Phase == PhaseDecision && !record.Allowed && d.counts(record) {
		return nil
	}
	return d.sink.Write(ctx, record)
}

// counts reports whether a refusal is counted instead of being passed on.
func (d *Damper) counts(record *Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	person := d.damping.Key(record)
	r, known := d.people[person]
	if !known {
		r = &refusals{}
		r.timer = time.AfterFunc(d.damping.Every, func() { d.end(person) })
		d.people[person] = r
	}
	if r.passed < d.damping.Each {
		r.passed++
		return false
	}
	if r.summary == nil {
		first := *record
		first.Phase, first.Since = PhaseSummary, record.Time
		r.summary = &first
	}
	r.summary.Count++
	return true
}

// end writes the summary of a person's minute, if there is one.
func (d *Damper) end(person string) {
	d.mu.Lock()
	r := d.people[person]
	delete(d.people, person)
	d.mu.Unlock()
	if r != nil {
		d.sum(r)
	}
}

func (d *Damper) sum(r *refusals) {
	if r.summary == nil {
		return
	}
	r.summary.Time = time.Now()
	ctx := context.Background() // a summary does not belong to a request
	if err := d.sink.Write(ctx, r.summary); err != nil {
		d.logger.ErrorContext(ctx, "audit summary not written", slog.String("subject", r.summary.Subject),
			slog.Int64("refused", r.summary.Count), slog.String("error", err.Error()))
	}
}

// Close writes the summaries of the minutes that have not ended. Afterwards everything passes.
func (d *Damper) Close() {
	d.mu.Lock()
	people := d.people
	d.people, d.closed = map[string]*refusals{}, true
	d.mu.Unlock()
	for _, r := range people {
		r.timer.Stop()
		d.sum(r)
	}
}
