// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package decide chooses the next action for one service. It is pure: a State is a value, and the
// results of its methods depend only on the State and their arguments. It reads no clock, holds no
// lock and calls no other component.
//
// A State begins with the data that an earlier process has stored. Then the service goes through
// these orders:
//
//	Wait ──plan names it──▶ Follow ◀──plan names it again──┐
//	  └──plan does not──▶ Hold or Leave ◀──plan drops it──┘
//	Hold ──a person confirms, or nothing is left──▶ Leave ──removed──▶ (gone)
//
// While the order is Follow, the newest entry has to pass a gate before the unit works on it: a
// window must be open, and the service's dependencies must be ready. Until then the unit continues
// with the applied entry, as if the plan had not changed. Waiting needs no slot.
//
// A run is due if there is a change to apply, after the pause that follows a failure, after others
// have changed an object, and at every refresh.
package decide

import (
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/window"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// Order is the newest plan's order for a service.
type Order int

// The orders.
const (
	Wait   Order = iota // its objects are in the cluster, and no plan has arrived yet
	Follow              // reconcile the entry of the plan
	Hold                // it left the plan, and the guard keeps it
	Leave               // it left the plan: remove it
)

// Action is the next action of a unit.
type Action int

// The actions.
const (
	Rest    Action = iota
	Apply          // reconcile the service
	Remove         // remove the service
	Release        // hand over the objects that other services of the plan want, while the guard keeps the service
	Preview        // compute a dry run
)

// String implements fmt.Stringer. The name is the name of the span of a run.
func (a Action) String() string {
	return [...]string{Rest: "rest", Apply: "apply", Remove: "remove", Release: "release", Preview: "preview"}[a]
}

// State is the input of all decisions about one service.
type State struct {
	Name string
	// Order is the newest plan's order, HeldWhy the reason for which the guard keeps the service.
	Order   Order
	HeldWhy string
	// Newest is the newest plan's entry, and Desired the one that the unit works on. Kept is the
	// completely applied entry; without a name it is unknown.
	Newest, Desired, Kept plan.Service

	Gate    Gate
	Stored  Stored
	Attempt Attempt
	Change  Change
	Preview DryRun

	// FirstNamed is the generation of the plan that named the service first. Ordered is the
	// generation that brought the latest order, OrderedAt the time.
	FirstNamed, Ordered int64
	OrderedAt           time.Time
	// UnhealthySince is the time since when objects are unhealthy. Zero: all are healthy.
	UnhealthySince time.Time
	// TestsRetryAt is when tests that could not be run are retried, after TestsFailed failures.
	TestsRetryAt time.Time
	TestsFailed  int
	// IsSyncing means that a run applies a change.
	IsSyncing bool
}

// Gate decides whether the unit works on the newest entry.
type Gate struct {
	// Bar is the reason why the unit does not work on Newest. Nil: it does.
	Bar *reason.Problem
	// IsFrozen means that a strict window denies even corrections.
	IsFrozen bool
	// Until is when to check the gate again. Zero: when the state changes.
	Until time.Time

	requested  inventory.Applied // the inputs that a person asked to apply now
	calendar   window.Calendar
	unreadable error // the error in the windows
}

// Stored is the stored inventory without its objects.
type Stored struct {
	ServiceUID, Owner string
	Applied           inventory.Applied
	// IsTouched means that a run has begun to change the cluster since Applied.
	IsTouched bool
	Tests     inventory.Tests
	// Warnings are the latest render's warnings.
	Warnings []string
}

// Attempt is the result of the latest run, and when the next one is due.
type Attempt struct {
	// IsRequested means that a person asked for a run, IsDirty that the latest failed or that
	// another service asked for one, IsNudged that it asked since the latest began.
	IsRequested, IsDirty, IsNudged bool
	// HasUnknown means that the last applied manifest of some objects is unknown.
	HasUnknown bool
	// Failed counts consecutive failures. RetryAt is when to retry.
	Failed  int
	RetryAt time.Time
	// RefreshAt is when to examine an unchanged service again.
	RefreshAt time.Time
	// Tried are the inputs of the latest run. LastGood are the inputs of the latest run of this
	// process, if it succeeded.
	Tried, LastGood inventory.Applied
	// SyncRequest is the sync request of the latest run.
	SyncRequest string
	// Problem, Failures and Guarded describe the failure of the latest run.
	Problem  *reason.Problem
	Failures []report.ObjectStatus
	Guarded  report.Guarded
	// Notice is a problem that the latest render met, and that kept nothing from being applied. Nil:
	// there was none.
	Notice *reason.Problem
}

// Change is the latest change of the inputs.
type Change struct {
	// Arrived is when it arrived, Planned the time of the plan that brought it.
	Arrived, Planned time.Time
	Trigger          plan.Trigger
	Timings          report.Timings

	progress progress
}

// progress is how far a change has come.
type progress int

const (
	untried   progress = iota
	isApplied          // it is in the cluster
	wasHealthy
)

// DryRun is the latest dry run.
type DryRun struct {
	// Of are its inputs. Result is nil before the first dry run, and after a failure.
	Of     inventory.Applied
	Result *report.DryRun
}

// New returns the state of a service before the first plan.
func New(record inventory.Record, kept plan.Service, hasUnknown bool, refreshAt time.Time) State {
	s := State{Name: record.Service, Kept: kept}
	s.Attempt = Attempt{
		HasUnknown: hasUnknown, Tried: record.Applied.Inputs(), SyncRequest: record.Applied.SyncRequest, RefreshAt: refreshAt,
	}
	s.SetStored(record)
	return s
}

// SetStored takes over the content of a stored inventory.
func (s *State) SetStored(record inventory.Record) {
	s.Stored = Stored{
		ServiceUID: record.ServiceUID, Owner: record.Owner, Applied: record.Applied, IsTouched: record.Touched, Tests: record.Tests,
		Warnings: record.Warnings,
	}
}

// IsCurrent reports whether the desired inputs are the completely applied ones.
func (s *State) IsCurrent() bool {
	return !s.Stored.IsTouched && s.Desired.Inputs().SameInputs(s.Stored.Applied)
}

// IsSettled reports whether the newest inputs are the completely applied ones, and nobody wants the service left alone.
func (s *State) IsSettled() bool { return s.IsCurrent() && !s.IsBehind() && !s.isLeftAlone() }

// IsBehind reports whether the service may not follow the newest entry yet.
func (s *State) IsBehind() bool {
	return !s.Desired.Inputs().SameInputs(s.Newest.Inputs())
}

// IsForeign reports whether another hub's agent has created a service that no plan of this hub has
// named.
func (s *State) IsForeign(owner string) bool {
	return s.Order == Wait && owner != "" && s.Stored.Owner != "" && s.Stored.Owner != owner
}

// isLeftAlone reports whether the service must be left unchanged.
func (s *State) isLeftAlone() bool {
	return s.Desired.Spec.Paused || s.Desired.Spec.DryRun || s.Gate.IsFrozen || len(s.Desired.Bundles) == 0
}

// earliest returns the earlier of two times. The zero time is later than any.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
