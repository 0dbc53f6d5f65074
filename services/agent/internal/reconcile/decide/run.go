// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Run is the purpose of a run.
type Run struct {
	// Service is the entry that it works on.
	Service plan.Service
	// IsChange means that the entry is not applied yet, IsRequested that a person asked for the
	// run.
	IsChange, IsRequested bool
	// IsRepeat means that the latest run had the same inputs and succeeded.
	IsRepeat bool
}

// BeginRun records that a run for an action begins, and returns its purpose.
func (s *State) BeginRun(what Action) Run {
	a := &s.Attempt
	run := Run{Service: s.Desired, IsChange: !s.IsCurrent(), IsRequested: a.IsRequested}
	run.IsRepeat = what == Apply && !run.IsChange && !run.IsRequested && !a.IsDirty && !a.HasUnknown &&
		a.LastGood.SameInputs(s.Desired.Inputs())
	s.IsSyncing = what == Apply && a.Problem == nil && (run.IsRequested || run.IsChange)
	a.IsRequested, a.IsNudged = false, false
	if what == Apply {
		a.Tried = s.Desired.Inputs()
	}
	if run.IsChange && s.Change.progress == untried {
		s.Change.Timings = report.Timings{Arrived: s.Change.Arrived}
	}
	run.IsChange = run.IsChange && what != Preview // a preview brings no change
	return run
}

// Failure describes why a run failed. Nil: it succeeded.
type Failure struct {
	Problem *reason.Problem
	// Objects are the failed objects, Guarded the deletions that the guard stopped.
	Objects []report.ObjectStatus
	Guarded report.Guarded
	// RetryAt is when to retry, unless a retry cannot help.
	RetryAt time.Time
}

// EndRun records the result of a run that was not superseded. RefreshAt is when to examine the
// service again if nothing changes.
func (s *State) EndRun(run Run, timings report.Timings, failure *Failure, refreshAt time.Time) {
	a := &s.Attempt
	a.SyncRequest, a.RefreshAt, a.LastGood = run.Service.SyncRequest, refreshAt, inventory.Applied{}
	if run.IsChange && s.Change.progress == untried {
		s.Change.Timings = timings
		if failure == nil {
			s.Change.progress = isApplied
		}
	}
	if failure == nil {
		s.resetAttempt()
		a.HasUnknown, a.LastGood = false, run.Service.Inputs()
		s.UnhealthySince = time.Time{}
	} else {
		a.Problem, a.Failures, a.Guarded, a.IsDirty = failure.Problem, failure.Objects, failure.Guarded, true
		a.Failed++
		a.RetryAt = failure.RetryAt
		if isPermanent(failure.Problem) && s.Order != Leave { // hooks of a removal are retried: they could not be changed
			a.RetryAt = refreshAt
		}
	}
	if a.IsNudged { // the run may have looked before that
		a.IsDirty, a.RetryAt = true, time.Time{}
	}
}

// SettleOrder applies the consequences of an admitted order. owesObjects means that objects waited
// for another service to take them over, which may no longer want them.
func (s *State) SettleOrder(owesObjects bool) {
	s.Attempt.IsDirty = s.Attempt.IsDirty || owesObjects
	if s.IsCurrent() {
		s.Attempt.Tried = s.Desired.Inputs() // there is nothing to try
	}
}

// isPermanent reports whether a retry cannot help: the same content meets the same renderer, with
// the same configuration, and a hook runs once.
func isPermanent(p *reason.Problem) bool {
	switch p.Reason {
	case reason.ManifestInvalid, reason.VariableMissing, reason.PruneGuarded, reason.Unimplemented, reason.HookFailed:
		return true
	default:
		return false
	}
}
