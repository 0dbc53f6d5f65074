// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedule decides when the owner of a repository asks the upstream next.
//
// A [Schedule] is a value. Its methods read it and a time, and return another one; nothing here
// waits or sends. Three instants make up the decision: the next poll, a fetch that was requested,
// and the time until which the upstream wants to be left alone, which holds for both.
package schedule

import (
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// Spread is how far polls stray from their interval, so that repositories do not stay in step.
	Spread = 0.25
	// failureFloor keeps a failing upstream from being asked in a tight loop, whatever the jitter.
	failureFloor   = time.Second
	failureInitial = 5 * time.Second
	failureMax     = 5 * time.Minute
	// maxQuiet bounds what an upstream can ask for.
	maxQuiet = time.Hour
	// quietSpread keeps the repositories of a host from coming back all at once.
	quietSpread = 0.1
)

// Schedule decides when the next fetch is due. The zero Schedule polls at once, and again and
// again.
type Schedule struct {
	// Interval is the mean time between polls.
	Interval time.Duration
	// IsSuspended stops polls and requested fetches.
	IsSuspended bool
	// Failures counts the fetches that have failed since the last that succeeded.
	Failures int

	pollAt    time.Time
	refreshAt time.Time // zero: no fetch is requested
	lastAsked time.Time // refreshAt of the latest request, answered or not
	notBefore time.Time // the upstream asked to be left alone until then
}

// Due returns when the next fetch begins, or false where none does until something changes.
func (s Schedule) Due() (time.Time, bool) {
	if s.IsSuspended {
		return time.Time{}, false
	}
	due := s.pollAt
	if !s.refreshAt.IsZero() && s.refreshAt.Before(due) {
		due = s.refreshAt
	}
	if due.Before(s.notBefore) {
		due = s.notBefore
	}
	return due, true
}

// IsDue reports whether a fetch has to begin by now.
func (s Schedule) IsDue(now time.Time) bool {
	due, ok := s.Due()
	return ok && !now.Before(due)
}

// AllowsFetchAt reports whether a fetch that is requested for an instant begins then: it does not
// while polling is suspended, or the upstream wants to be left alone for longer.
func (s Schedule) AllowsFetchAt(at time.Time) bool {
	return !s.IsSuspended && !s.notBefore.After(at)
}

// HasRequest reports whether a fetch is requested that has not begun.
func (s Schedule) HasRequest() bool { return !s.refreshAt.IsZero() }

// NextRequest returns when a fetch that is requested now begins: at once, or apart after the last
// one that was requested. So a single push is fetched without delay, and many are fetched together.
func (s Schedule) NextRequest(now time.Time, apart time.Duration) time.Time {
	if next := s.lastAsked.Add(apart); next.After(now) {
		return next
	}
	return now
}

// Request asks for a fetch at an instant. An earlier request stays.
func (s Schedule) Request(at time.Time) Schedule {
	if !s.HasRequest() {
		s.refreshAt, s.lastAsked = at, at
	}
	return s
}

// DropRequest forgets a requested fetch: one that begins answers it, or it is dropped.
func (s Schedule) DropRequest() Schedule {
	s.refreshAt = time.Time{}
	return s
}

// PollNow makes a fetch due at once, unless the upstream wants to be left alone.
func (s Schedule) PollNow(now time.Time) Schedule {
	s.pollAt = now
	return s
}

// Restart is PollNow for an upstream that is another one than before, or reached in another way:
// what the one before asked for does not count.
func (s Schedule) Restart(now time.Time) Schedule {
	s.pollAt, s.notBefore = now, time.Time{}
	return s
}

// WithInterval changes the interval. A shorter one counts from now, except while fetches fail: how
// long to leave a failing upstream alone has nothing to do with the interval.
func (s Schedule) WithInterval(interval time.Duration, now time.Time) Schedule {
	if interval == s.Interval {
		return s
	}
	s.Interval = interval
	if due := now.Add(backoff.Jitter(interval, Spread)); s.Failures == 0 && s.pollAt.After(due) {
		s.pollAt = due
	}
	return s
}

// Succeed schedules the poll after a fetch that succeeded.
func (s Schedule) Succeed(now time.Time) Schedule {
	s.Failures = 0
	s.pollAt, s.notBefore = now.Add(backoff.Jitter(s.Interval, Spread)), time.Time{}
	return s
}

// Fail schedules the try after a fetch that failed. The wait grows with the failures up to the poll
// interval, and is at least retryAfter, for which the upstream asked. Zero: it did not.
func (s Schedule) Fail(now time.Time, retryAfter time.Duration) Schedule {
	s.Failures++
	longest := min(s.Interval, failureMax)
	policy := backoff.Policy{Initial: min(failureInitial, longest), Max: longest}
	s.pollAt, s.notBefore = now.Add(max(policy.Delay(s.Failures-1), min(failureFloor, longest))), time.Time{}
	if retryAfter > 0 {
		wait := min(retryAfter, maxQuiet)
		s.notBefore = now.Add(wait + backoff.Jitter(wait/8, 1))
	}
	return s
}

// Postpone moves the next fetch behind the time until which the upstream's host wants to be left
// alone, and drops a request. Nothing was sent, so it is not a failure.
func (s Schedule) Postpone(now, until time.Time) Schedule {
	wait := max(min(until.Sub(now), maxQuiet), failureFloor)
	s.notBefore = now.Add(wait + backoff.Jitter(time.Duration(quietSpread*float64(wait)), 1))
	return s.DropRequest()
}
