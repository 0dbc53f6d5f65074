// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/window"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// OrderFollow records an entry of the plan of that time and generation. The caller must call Admit
// afterwards. It reports whether a run under earlier orders must end.
func (s *State) OrderFollow(entry plan.Service, planTime, now time.Time, generation int64) (supersedes bool) {
	if s.Order != Follow {
		s.resetAttempt()
		supersedes = true
	}
	isNew := s.Order != Follow || !entry.Inputs().SameInputs(s.Newest.Inputs()) || entry.UID != s.Newest.UID
	s.stamp(generation, now, isNew)
	s.Order, s.HeldWhy = Follow, ""
	if entry.Inputs().SameInputs(s.Stored.Applied) {
		s.Stored.Applied.Commits, s.Stored.Applied.Versions = entry.Inputs().Commits, entry.Inputs().Versions
	}
	if isNew {
		s.Change = Change{Arrived: now, Planned: planTime, Trigger: entry.Trigger}
		s.Attempt.Failed, s.Attempt.RetryAt = 0, time.Time{}
	}
	if entry.SyncRequest != s.Newest.SyncRequest && entry.SyncRequest != s.Stored.Applied.SyncRequest {
		s.Gate.requested = entry.Inputs()
	}
	s.Newest = entry
	s.Gate.calendar, s.Gate.unreadable = window.New(entry.Spec.Policy.Windows)
	return supersedes
}

// OrderLeave records that the plan no longer names the service. If the guard keeps it, heldWhy is
// the reason. It reports whether a run under earlier orders must end.
func (s *State) OrderLeave(heldWhy string, now time.Time, generation int64) (supersedes bool) {
	if s.Order == Leave {
		return false
	}
	s.Order, s.HeldWhy = Leave, heldWhy
	if heldWhy != "" {
		s.Order = Hold
	}
	s.stamp(generation, now, true)
	s.resetAttempt()
	return true
}

// Request records that a person asked for a run, which also confirms a removal that the guard
// keeps.
func (s *State) Request() {
	s.ConfirmRemoval()
	s.Attempt.IsRequested, s.Attempt.RetryAt = true, time.Time{}
	s.Gate.requested = s.Newest.Inputs()
}

// ConfirmRemoval releases a service that the guard keeps.
func (s *State) ConfirmRemoval() {
	if s.Order == Hold {
		s.Order, s.HeldWhy = Leave, ""
	}
}

// Nudge records that another service asks for a run: it has taken objects over, or lends some.
func (s *State) Nudge() {
	s.Attempt.IsDirty, s.Attempt.IsNudged, s.Attempt.RetryAt = true, true, time.Time{}
}

// stamp records which plan brought an order.
func (s *State) stamp(generation int64, now time.Time, isNew bool) {
	s.FirstNamed = cmp.Or(s.FirstNamed, generation)
	if isNew {
		s.Ordered, s.OrderedAt = generation, now
	}
}

// resetAttempt clears the results of runs under earlier orders.
func (s *State) resetAttempt() {
	a := &s.Attempt
	a.Failed, a.RetryAt, a.Problem, a.Failures, a.Guarded, a.IsDirty = 0, time.Time{}, nil, nil, report.Guarded{}, false
}

// RetryOnHealthy brings the retry forward if an object became healthy for which a run has waited
// too long.
func (s *State) RetryOnHealthy() {
	if s.Attempt.Problem != nil && s.Attempt.Problem.Reason == reason.HealthTimeout && s.Attempt.IsDirty {
		s.Attempt.RetryAt = time.Time{}
	}
}

// RetryHeld brings the retry forward if the latest run did not delete objects because a person has to
// agree. It reports whether it did.
func (s *State) RetryHeld() bool {
	if s.Attempt.Problem == nil || s.Attempt.Problem.Reason != reason.PruneGuarded {
		return false
	}
	s.Attempt.RetryAt = time.Time{}
	return true
}

// RetryUnanswered brings the retry forward if the latest run failed because the hub did not give something. It reports
// whether it did. The next pause is as long as if the failures had gone on: a hub that answers may fail again.
func (s *State) RetryUnanswered() bool {
	p := s.Attempt.Problem
	if p == nil || p.Reason != reason.BundleUnavailable && p.Reason != reason.DependencyUnavailable {
		return false
	}
	s.Attempt.RetryAt = time.Time{}
	return true
}
