// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package decide decides what happens to one service next. It is pure: a State is a value, and what its
// methods return depends on the State and their arguments alone. It reads no clock, holds no lock and
// calls nobody.
//
// A service comes into a State with what an earlier process has stored. Then it goes through these
// orders:
//
//	Wait ──plan names it──▶ Follow ◀──plan names it again──┐
//	  └──plan does not──▶ Hold or Leave ◀──plan drops it──┘
//	Hold ──a person confirms, or nothing is left──▶ Leave ──removed──▶ (gone)
//
// While it follows, the newest entry passes a gate before the unit works on it: a window must be open,
// and what the service depends on must be there. Until then the unit goes on with what is applied
// already, as if the plan had not changed. Waiting costs no slot.
//
// A run is due when there is something to bring, when one failed and its pause is over, when others
// have changed an object, and at every refresh.
package decide

import (
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
	"github.com/leatdev/leat/services/agent/internal/window"
)

// Order is what the plan wants of a service.
type Order int

// The orders.
const (
	Wait   Order = iota // its objects are in the cluster, and there is no plan yet
	Follow              // reconcile what the plan says
	Hold                // it left the plan, and the guard keeps it
	Leave               // it left the plan: remove it
)

// Action is what a unit does next.
type Action int

// The actions.
const (
	Rest    Action = iota
	Apply          // reconcile the service
	Remove         // remove the service
	Release        // hand the objects over that other services of the plan want, of a service that the guard keeps
	Preview        // compute a dry run
)

// String implements fmt.Stringer. The name is the name of the span of a run.
func (a Action) String() string {
	switch a {
	case Apply:
		return "apply"
	case Remove:
		return "remove"
	case Release:
		return "release"
	case Preview:
		return "preview"
	case Rest:
	}
	return "rest"
}

// State is everything about one service that decides what happens to it.
type State struct {
	Name string
	// Order is what the newest plan wants, HeldWhy why the guard keeps the service.
	Order   Order
	HeldWhy string
	// Newest is the newest plan's entry, and Desired the one that the unit works on. Kept is the entry
	// that is applied completely; without a name it is unknown.
	Newest, Desired, Kept plan.Service

	Gate    Gate
	Stored  Stored
	Attempt Attempt
	Change  Change
	Preview DryRun

	// FirstNamed is the generation of the plan that named the service first. Ordered is the generation
	// that brought the latest order, OrderedAt the time.
	FirstNamed, Ordered int64
	OrderedAt           time.Time
	// UnhealthySince is since when objects are not healthy. Zero: all are.
	UnhealthySince time.Time
	// TestsRetryAt is when tests that could not be run are tried again, after TestsFailed failures.
	TestsRetryAt time.Time
	TestsFailed  int
	// IsSyncing means that a run brings something new.
	IsSyncing bool
}

// Gate stands between the newest entry and what the unit works on.
type Gate struct {
	// Bar is why the unit does not work on Newest. Nil: it does.
	Bar *reason.Problem
	// IsFrozen means that a strict window denies even corrections.
	IsFrozen bool
	// Until is when to ask again. Zero: when something changes.
	Until time.Time

	requested  inventory.Applied // the inputs that a person asked to apply now
	calendar   window.Calendar
	unreadable error // why the windows cannot be read
}

// Stored is what the stored inventory says, apart from its objects.
type Stored struct {
	ServiceUID, Owner string
	Applied           inventory.Applied
	// IsTouched means that a run has begun to change the cluster since Applied.
	IsTouched bool
	Tests     inventory.Tests
}

// Attempt is what became of the latest run, and when the next one is due.
type Attempt struct {
	// IsRequested means that a person asked for a run, IsDirty that the latest failed or that another
	// service asked for one, IsNudged that it asked since the latest began.
	IsRequested, IsDirty, IsNudged bool
	// HasUnknown means that it is unknown what was applied last to some objects.
	HasUnknown bool
	// Failed counts the failures in a row. RetryAt is when to try again.
	Failed  int
	RetryAt time.Time
	// RefreshAt is when to look at an unchanged service again.
	RefreshAt time.Time
	// Tried are the inputs of the latest run; LastGood those of the latest run of this process, if it
	// succeeded.
	Tried, LastGood inventory.Applied
	// SyncRequest is the sync request of the latest run.
	SyncRequest string
	// Problem, Failures and Guarded are why the latest run failed.
	Problem  *reason.Problem
	Failures []report.ObjectStatus
	Guarded  report.Guarded
}

// Change is the latest change of the inputs.
type Change struct {
	// Arrived is when it arrived, Planned the time of the plan that brought it.
	Arrived, Planned time.Time
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
	// Of are its inputs. Result is nil before the first, and after a failure.
	Of     inventory.Applied
	Result *report.DryRun
}

// New returns the state of a service before there is a plan.
func New(record inventory.Record, kept plan.Service, hasUnknown bool, refreshAt time.Time) State {
	s := State{Name: record.Service, Kept: kept}
	s.Attempt = Attempt{
		HasUnknown: hasUnknown, Tried: record.Applied.Inputs(), SyncRequest: record.Applied.SyncRequest, RefreshAt: refreshAt,
	}
	s.SetStored(record)
	return s
}

// SetStored takes over what an inventory says that was stored.
func (s *State) SetStored(record inventory.Record) {
	s.Stored = Stored{
		ServiceUID: record.ServiceUID, Owner: record.Owner, Applied: record.Applied, IsTouched: record.Touched, Tests: record.Tests,
	}
}

// IsCurrent reports whether the desired inputs are the ones that were applied completely.
func (s *State) IsCurrent() bool {
	return !s.Stored.IsTouched && s.Desired.Inputs().SameInputs(s.Stored.Applied)
}

// IsBehind reports whether the service may not follow the newest entry yet.
func (s *State) IsBehind() bool {
	return !s.Desired.Inputs().SameInputs(s.Newest.Inputs())
}

// IsForeign reports whether another hub's agent has created a service that no plan of this hub has
// named.
func (s *State) IsForeign(owner string) bool {
	return s.Order == Wait && owner != "" && s.Stored.Owner != "" && s.Stored.Owner != owner
}

// isLeftAlone reports whether the service is to be left unchanged.
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
