// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"time"

	"github.com/leatdev/leat/services/agent/internal/report"
)

// Facts are the inputs of a decision besides the State.
type Facts struct {
	Now time.Time
	// IsNeeded means that other services that left the plan depend on this one, and must go first.
	IsNeeded bool
	// CorrectionDue is when changed objects are to be corrected, and ContestExpires when the latest
	// contested object stops being contested. Zero: never.
	CorrectionDue, ContestExpires time.Time
	// HasNewObjects means that the objects have changed since the latest dry run.
	HasNewObjects bool
	// Phase is the last reported phase.
	Phase report.Phase
}

// Next returns the action to carry out now. Rest comes with the time until which to rest, or zero
// to rest until something changes.
func (s *State) Next(f Facts) (Action, time.Time) {
	what := s.Wanted(f)
	switch {
	case what != Rest && f.Now.Before(s.Attempt.RetryAt):
		return Rest, earliest(s.alarm(f.Now), s.Attempt.RetryAt)
	case what != Rest:
		return what, time.Time{}
	case s.Order == Follow && !s.isLeftAlone():
		drift := earliest(f.CorrectionDue, f.ContestExpires)
		return Rest, earliest(earliest(s.alarm(f.Now), drift), earliest(s.Attempt.RefreshAt, s.healthDeadline(f.Phase)))
	default:
		return Rest, s.alarm(f.Now)
	}
}

// Wanted returns the action to carry out as soon as the pause after a failure is over.
func (s *State) Wanted(f Facts) Action {
	switch {
	case s.Order == Leave && !f.IsNeeded:
		return Remove
	case s.Order == Hold && s.Attempt.IsDirty:
		return Release
	case s.Order == Follow && !s.isLeftAlone() && s.isDue(f):
		return Apply
	case s.wantsPreview(f):
		return Preview
	default:
		return Rest
	}
}

// isDue reports whether there may be something to apply. The run determines which objects differ.
func (s *State) isDue(f Facts) bool {
	a := s.Attempt
	return a.IsRequested && s.Gate.Bar == nil || a.IsDirty || a.HasUnknown || !s.IsCurrent() ||
		!f.Now.Before(a.RefreshAt) || !f.CorrectionDue.IsZero() && !f.Now.Before(f.CorrectionDue)
}

// wantsPreview reports whether a dry run is due: of new inputs, of the same inputs if a person asks
// or the last dry run failed, and at a refresh if the objects have changed.
func (s *State) wantsPreview(f Facts) bool {
	d := s.Desired
	if s.Order != Follow || !d.Spec.DryRun || d.Spec.Paused || len(d.Bundles) == 0 {
		return false
	}
	return s.Attempt.IsRequested || s.Attempt.IsDirty || !s.Preview.Of.SameInputs(d.Inputs()) ||
		s.IsPreviewRefreshDue(f.Now) && f.HasNewObjects
}

// IsPreviewRefreshDue reports whether to check now if the objects of a dry run have changed.
func (s *State) IsPreviewRefreshDue(now time.Time) bool {
	return s.Desired.Spec.DryRun && !now.Before(s.Attempt.RefreshAt)
}

// DeferRefresh postpones the refresh of a dry run that has nothing new to report.
func (s *State) DeferRefresh(f Facts, refreshAt time.Time) {
	if s.Order == Follow && s.IsPreviewRefreshDue(f.Now) && !s.wantsPreview(f) {
		s.Attempt.RefreshAt = refreshAt
	}
}

// healthDeadline returns when unhealthy objects count as stuck, or zero if none is progressing.
func (s *State) healthDeadline(phase report.Phase) time.Time {
	if s.UnhealthySince.IsZero() || phase != report.Progressing {
		return time.Time{}
	}
	return s.UnhealthySince.Add(s.Desired.Spec.HealthTimeoutOrDefault())
}

// alarm returns when to decide again because of a window, of tests that could not be run, or of a
// dry run. Zero: none of these applies.
func (s *State) alarm(now time.Time) time.Time {
	at := s.Gate.Until
	if s.NeedsTests() && now.Before(s.TestsRetryAt) {
		at = earliest(at, s.TestsRetryAt)
	}
	if s.Desired.Spec.DryRun && !s.Desired.Spec.Paused {
		at = earliest(at, s.Attempt.RefreshAt)
	}
	return at
}

// NeedsTests reports whether tests have to run for the applied inputs.
func (s *State) NeedsTests() bool {
	return s.Order == Follow && s.Stored.Tests.Due && s.IsCurrent() && !s.isLeftAlone()
}

// Hasten brings the refresh forward to that time, unless it is earlier anyway.
func (s *State) Hasten(at time.Time) {
	s.Attempt.RefreshAt = earliest(s.Attempt.RefreshAt, at)
}
