// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// refusalsEach and refusalsEvery bound the records of one person's refused requests. The numbers are far above what somebody causes by
// mistake.
const (
	refusalsEach  = 60
	refusalsEvery = time.Minute
)

// Damper is a [Sink] before another one. Of each person it passes on the first 60 decisions in a minute that refuse a request. The others
// it counts, and writes as one summary when the minute is over, so that nobody fills the log with requests that cost them nothing, and
// nothing is missing from it without a word. Decisions that let a request pass, and outcomes, always pass.
//
// It is safe for concurrent use. It remembers a person for a minute.
type Damper struct {
	sink   Sink
	logger *slog.Logger

	mu     sync.Mutex
	closed bool
	people map[string]*refusals
}

// refusals are one person's, in the minute that began with the first one.
type refusals struct {
	timer   *time.Timer
	passed  int
	summary *Record // of those that were not passed on; nil: there are none
}

var _ Sink = (*Damper)(nil)

// NewDamper returns a damper before sink. The logger is told of summaries that are not written.
func NewDamper(sink Sink, logger *slog.Logger) *Damper {
	return &Damper{sink: sink, logger: logger, people: map[string]*refusals{}}
}

// Write implements [Sink].
func (d *Damper) Write(ctx context.Context, record *Record) error {
	if record.Phase == PhaseDecision && !record.Allowed && d.counts(record) {
		return nil
	}
	return d.sink.Write(ctx, record)
}

// counts reports whether a refusal is only counted.
func (d *Damper) counts(record *Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	person := record.Subject
	r, known := d.people[person]
	if !known {
		r = &refusals{}
		r.timer = time.AfterFunc(refusalsEvery, func() { d.end(person) })
		d.people[person] = r
	}
	if r.passed < refusalsEach {
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

// end writes the summary of a person's minute, if there is anything to sum up.
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
	ctx := context.Background() // it is nobody's request
	if err := d.sink.Write(ctx, r.summary); err != nil {
		d.logger.ErrorContext(ctx, "audit summary not written", slog.String("subject", r.summary.Subject),
			slog.Int64("refused", r.summary.Count), slog.String("error", err.Error()))
	}
}

// Close writes the summaries of the minutes that have not ended. From then on everything passes.
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
