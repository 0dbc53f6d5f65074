// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/schedule"
)

// fetchState is a replica's state of the fetches of a repository: what to fetch, when, under which
// epoch, and how the last one ended. It is a value; its methods change nothing but it.
type fetchState struct {
	definition mirror.Definition
	schedule   schedule.Schedule
	epoch      uint64          // the lease's; 0 while this replica does not own the repository
	problem    *mirror.Problem // why fetches do not succeed; nil: they do
	fetches    int64           // of this tenure, whatever came of them
	// cause is the trace of the first call that requested the fetch which is due; it may be
	// invalid.
	cause trace.SpanContext
	// requestedAt is when that call came. Zero: the fetch that is due is a poll.
	requestedAt time.Time
	// begun and finished count fetches since the process started. A caller that waits for a fetch
	// of its own waits until as many are finished as had begun when it called, and one more.
	begun, finished uint64
}

// define takes over a definition. A changed upstream is asked at once.
func (s *fetchState) define(def mirror.Definition, interval time.Duration, now time.Time) {
	if !def.SameUpstream(s.definition.Definition) || (s.definition.Suspended && !def.Suspended) {
		s.schedule = s.schedule.Restart(now)
	}
	s.schedule = s.schedule.WithInterval(interval, now)
	s.schedule.IsSuspended = def.Suspended
	s.definition = def
}

// own begins a tenure, and a fetch with it: the owner before may have fetched without being able to
// publish it.
func (s *fetchState) own(epoch uint64, now time.Time) {
	s.epoch, s.fetches, s.problem = epoch, 0, nil
	s.schedule.Failures = 0
	s.schedule = s.schedule.PollNow(now)
}

// resign ends a tenure.
func (s *fetchState) resign() {
	s.epoch, s.cause, s.requestedAt = 0, trace.SpanContext{}, time.Time{}
	s.schedule = s.schedule.DropRequest()
}

// begin begins a fetch, which answers all requests so far.
func (s *fetchState) begin() {
	s.begun++
	s.cause, s.requestedAt = trace.SpanContext{}, time.Time{}
	s.schedule = s.schedule.DropRequest()
}

// abandon ends a fetch whose result does not count.
func (s *fetchState) abandon() { s.finished = s.begun }

// finish ends a fetch of a definition, and reports whether the fetch before it came out otherwise:
// well, or for another reason.
func (s *fetchState) finish(fetched mirror.Definition, err error, now time.Time) (hasTurned bool) {
	before := s.problem
	s.finished = s.begun
	s.fetches++
	if err == nil {
		s.problem = nil
		s.schedule = s.schedule.Succeed(now)
	} else {
		var wait time.Duration
		if upstream, ok := errors.AsType[*mirror.UpstreamError](err); ok {
			wait = upstream.RetryAfter
		}
		s.problem = mirror.ProblemOf(err, before, now)
		s.schedule = s.schedule.Fail(now, wait)
	}
	if s.definition != fetched { // replaced while it was fetched, and to be fetched at once
		s.schedule = s.schedule.Restart(now)
	}
	return (before == nil) != (s.problem == nil) || before != nil && before.Reason != s.problem.Reason
}

// postpone puts the next fetch off because the host wants to be left alone.
func (s *fetchState) postpone(quiet *mirror.QuietError, now time.Time) {
	s.schedule = s.schedule.Postpone(now, quiet.Until)
	if s.schedule.Failures == 0 { // the repository's own failure is more precise
		s.problem = mirror.ProblemOf(&mirror.UpstreamError{
			Reason: reason.UpstreamRateLimited,
			Message: quiet.Host + " asks to slow down; " +
				"Leat leaves all its repositories alone for that long, and goes on by itself.",
		}, s.problem, now)
	}
}

// fetching keeps the fetch state of a repository.
type fetching struct {
	changes *wake.Broadcast

	mu    sync.Mutex
	state fetchState
}

// read returns the state.
func (f *fetching) read() fetchState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// change applies a change that takes no time, and wakes all who wait. It returns the state before.
func (f *fetching) change(apply func(s *fetchState)) (before fetchState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.state
	apply(&f.state)
	f.changes.Notify()
	return before
}

// request has a fetch made as soon as the last requested one is apart ago, unless one is requested
// already, this replica is not the owner, or none will be made then. It returns the state as it was,
// and when the fetch begins.
func (f *fetching) request(now time.Time, apart time.Duration, cause trace.SpanContext) (before fetchState, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = f.state
	at = before.schedule.NextRequest(now, apart)
	if before.epoch != 0 && before.schedule.AllowsFetchAt(at) && !before.schedule.HasRequest() {
		f.state.schedule, f.state.cause, f.state.requestedAt = before.schedule.Request(at), cause, now
		f.changes.Notify()
	}
	return before, at
}
