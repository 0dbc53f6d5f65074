// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// errSuperseded ends a run whose plan entry is no longer the newest.
var errSuperseded = errors.New("superseded by a newer plan")

// refreshJitter spreads periodic work.
const refreshJitter = 0.25

// stage is how far a change has come.
type stage int

const (
	untried stage = iota
	applied       // it is in the cluster
	settled       // and was healthy once
)

// unit is one service. Its goroutine is the only one that works on the cluster; everybody else changes its orders and
// wakes it.
type unit struct {
	engine  *Engine
	name    string
	wake    chan struct{}     // one token when something below changed
	objects *observe.Objects  // has a lock of its own
	member  *ownership.Member // likewise

	mu sync.Mutex // guards what follows
	gate
	order    decide.Order
	closed   bool // the goroutine ends; nobody may give orders any more
	heldWhy  string
	desired  plan.Service
	arrived  time.Time      // when the desired inputs came
	planned  time.Time      // the time of the plan with which they came
	stage    stage          // how far they have come
	timings  report.Timings // of the latest try of them
	forced   bool           // somebody asked for a run
	dirty    bool           // the latest run failed
	nudged   bool           // another service asked for a run since the latest began
	syncing  bool           // a run brings something new
	cancel   context.CancelCauseFunc
	stored   inventory.Record      // the inventory as stored, without its objects
	problem  *reason.Problem       // of the latest run
	failures []report.ObjectStatus // of the latest run
	carried  string                // the sync request of the latest run
	sure     inventory.Applied     // the inputs of the latest run of this process, if it ended well
	tried    inventory.Applied     // the inputs of the latest run
	attempts int
	retryAt  time.Time
	refresh  time.Time
	rules    submit.Rules  // of the policy of desired
	lost     bool          // there are objects of which nobody knows what was applied
	since    time.Time     // since when objects are on their way; zero when none is
	status   report.Status // as last reported

	rehearsal rehearsal
	trial     *trial    // the tests that run; the goroutine's alone
	retrials  int       // of tests that could not be run
	retrial   time.Time // when to try those again

	guarded   report.Guarded // of the latest run
	running   chan struct{}  // closed at the end of the run that is under way; nil when none is
	born      int64          // the generation of the plan that named the service first
	ordered   int64          // the generation of the plan that brought the latest order
	orderedAt time.Time
}

// newUnit returns the unit of a service with what an earlier process has stored: its inventory, and the
// fingerprints of what it applied. An object without a fingerprint is applied again.
func newUnit(e *Engine, record inventory.Record, table fingerprint.Table) *unit {
	u := &unit{
		engine: e, name: record.Service, wake: make(chan struct{}, 1),
		objects: observe.New(record.Objects, table), gate: gate{kept: entryOf(record)},
		tried: record.Applied.Inputs(), carried: record.Applied.SyncRequest,
		refresh: time.Now().Add(backoff.Jitter(e.refreshPause(), refreshJitter)),
	}
	u.lost = u.objects.HasUnknown()
	u.setStored(record)
	return u
}

// follow gives the unit an entry of a plan made at the time planned. It reports false when the unit is closed.
func (u *unit) follow(s plan.Service, planned, now time.Time, generation int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	if u.order != decide.Follow {
		u.renew()
	}
	fresh := u.order != decide.Follow || !s.Inputs().SameInputs(u.newest.Inputs()) || s.UID != u.newest.UID
	owing := u.member.HasLent(u.ordered)
	u.reckon(generation, fresh)
	u.order, u.heldWhy = decide.Follow, ""
	if s.Inputs().SameInputs(u.stored.Applied) {
		u.stored.Applied.Commits = s.Inputs().Commits
	}
	if fresh {
		u.arrived, u.planned, u.stage, u.timings = now, planned, untried, report.Timings{}
		u.attempts, u.retryAt = 0, time.Time{}
	}
	u.offer(s)
	u.admit(now)
	u.dirty = u.dirty || owing // what another service was to take over may have no taker any more
	if u.current() {
		u.tried = u.desired.Inputs() // as good as tried: there is nothing to do
	}
	signal(u.wake)
	return true
}

// reckon notes which plan brought an order. u.mu is held.
func (u *unit) reckon(generation int64, fresh bool) {
	if u.born == 0 {
		u.born = generation
	}
	if fresh {
		u.ordered, u.orderedAt = generation, time.Now()
	}
}

// dismiss takes the unit out of the plan.
func (u *unit) dismiss(generation int64, held bool, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.order == decide.Leave || u.closed {
		return
	}
	u.order, u.heldWhy = decide.Leave, ""
	if held {
		u.order, u.heldWhy = decide.Hold, why
	}
	u.reckon(generation, true)
	u.renew()
	signal(u.wake)
}

// renew forgets what came of earlier orders and ends a run under them. u.mu is held.
func (u *unit) renew() {
	u.attempts, u.retryAt, u.problem, u.failures, u.guarded, u.dirty = 0, time.Time{}, nil, nil, report.Guarded{}, false
	if u.cancel != nil {
		u.cancel(errSuperseded)
	}
}

// force asks for a run, or confirms a removal that is held back.
func (u *unit) force() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.order == decide.Hold {
		u.order, u.heldWhy = decide.Leave, ""
	}
	u.forced, u.retryAt = true, time.Time{}
	u.request = u.newest.Inputs()
	signal(u.wake)
}

// foreign tells a service that another hub's agent has made, and that no plan of ours has ever named.
func (u *unit) foreign(owner string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order == decide.Wait && owner != "" && u.stored.Owner != "" && u.stored.Owner != owner
}

func (u *unit) leaving() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order == decide.Leave
}

// close ends the unit unless it has been taken up again.
func (u *unit) close() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = u.order == decide.Leave
	return u.closed
}

// run is the unit's goroutine.
func (u *unit) run(ctx context.Context) {
	defer func() { u.prerequisites.stop(); u.trial.end() }()
	for ctx.Err() == nil {
		u.look(ctx, time.Now())
		u.try(ctx)
		u.publish(time.Now())
		u.store(ctx)
		switch what, at := u.next(time.Now()); what {
		case decide.Apply:
			u.sync(ctx)
		case decide.Remove:
			if u.remove(ctx) {
				return
			}
		case decide.Release:
			u.work(ctx, decide.Release, func(ctx context.Context, r *run) error { return r.release(ctx) })
		case decide.Preview:
			u.rehearse(ctx)
		case decide.Rest:
			u.rest(ctx, at)
		}
	}
	u.store(ctx)
}

// next decides what to do now, or until when to rest; the zero time means until somebody wakes the unit.
func (u *unit) next(now time.Time) (decide.Action, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	what := u.wanted(now)
	switch {
	case what != decide.Rest && now.Before(u.retryAt):
		return decide.Rest, earliest(u.alarm(), u.retryAt)
	case what != decide.Rest:
		return what, time.Time{}
	case u.order == decide.Follow && !u.still():
		return decide.Rest, earliest(u.alarm(), earliest(earliest(u.objects.Schedule()), earliest(u.refresh, u.deadline())))
	default:
		return decide.Rest, u.alarm()
	}
}

func (u *unit) wanted(now time.Time) decide.Action {
	switch {
	case u.order == decide.Leave && !u.needed():
		return decide.Remove
	case u.order == decide.Hold && u.dirty:
		return decide.Release
	case u.order == decide.Follow && !u.still() && u.due(now):
		return decide.Apply
	case u.rehearses(now):
		return decide.Preview
	default:
		return decide.Rest
	}
}

// still tells a service that is to be left as it is.
func (u *unit) still() bool {
	return u.desired.Spec.Paused || u.desired.Spec.DryRun || u.frozen || len(u.desired.Bundles) == 0
}

// due tells whether there may be something to apply. What of it is applied, each object decides.
func (u *unit) due(now time.Time) bool {
	return u.forced && u.bar == nil || u.dirty || u.lost || !u.current() || !now.Before(u.refresh) || u.driftIsDue(now)
}

// driftIsDue reports whether it is time to correct what others have changed.
func (u *unit) driftIsDue(now time.Time) bool {
	due, _ := u.objects.Schedule()
	return !due.IsZero() && !now.Before(due)
}

// current tells whether the desired inputs are the ones that were applied completely.
func (u *unit) current() bool {
	return !u.stored.Touched && u.desired.Inputs().SameInputs(u.stored.Applied)
}

// deadline is when objects on their way count as stuck; zero when none is.
func (u *unit) deadline() time.Time {
	if u.since.IsZero() || u.status.Phase != report.Progressing {
		return time.Time{}
	}
	return u.since.Add(u.desired.Spec.HealthTimeoutOrDefault())
}

func (u *unit) rest(ctx context.Context, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-ctx.Done():
	case <-u.wake:
	case <-alarm:
	}
}

// sync carries out one run when a slot is free.
func (u *unit) sync(ctx context.Context) {
	u.work(ctx, decide.Apply, func(ctx context.Context, r *run) error { return r.sync(ctx) })
}

// remove takes the service's objects away, and reports whether the unit is finished.
func (u *unit) remove(ctx context.Context) bool {
	if !u.work(ctx, decide.Remove, func(ctx context.Context, r *run) error { return r.remove(ctx) }) || !u.engine.forget(u) {
		return false
	}
	if err := u.engine.params.Fingerprints.Delete(context.WithoutCancel(ctx), u.name); err != nil {
		u.engine.params.Logger.WarnContext(ctx, "fingerprints cannot be removed", slog.String("leat.service", u.name), slog.Any("error", err))
	}
	u.engine.params.Reporter.Forget(u.name)
	u.engine.events.publish(report.Event{Time: time.Now(), Service: u.name, Message: "removed"})
	return true
}

// work runs do in a slot, and reports whether it succeeded.
func (u *unit) work(ctx context.Context, what decide.Action, do func(context.Context, *run) error) bool {
	runCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	turn := &turn{slots: u.engine.slots, service: u.name, limit: u.engine.params.Settings.ApplyTimeout, run: stop, ended: runCtx.Done()}
	if !turn.take() {
		return false
	}
	defer turn.leave()
	r := u.begin(what, stop)
	if r == nil {
		return false // the order changed while waiting for the slot
	}
	r.turn = turn
	u.publish(time.Now())
	started := time.Now()
	runCtx, span := r.trace(runCtx, what)
	defer span.End()
	err := r.assume(what)
	if err == nil {
		err = do(runCtx, r)
	}
	if runCtx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(runCtx) // which may be that it took too long
	}
	return u.conclude(runCtx, r, err, time.Since(started))
}

// begin takes a copy of what is to be done.
func (u *unit) begin(what decide.Action, stop context.CancelCauseFunc) *run {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wanted(time.Now()) != what {
		return nil
	}
	news, asked := !u.current(), u.forced
	same := what == decide.Apply && !news && !asked && !u.dirty && !u.lost && u.sure.SameInputs(u.desired.Inputs()) && u.objects.AreUndisturbed()
	u.syncing = what == decide.Apply && u.problem == nil && (u.forced || news)
	u.forced, u.nudged, u.cancel = false, false, stop
	u.running = make(chan struct{})
	u.objects.BeginRun()
	if what == decide.Apply {
		u.tried = u.desired.Inputs()
	}
	if news && u.stage == untried {
		u.timings = report.Timings{Arrived: u.arrived}
	}
	record := u.stored
	record.Objects = u.objects.Listed()
	return &run{
		unit: u, engine: u.engine, service: u.desired,
		rules: u.rules, arrived: u.arrived, timings: u.timings, news: news, asked: asked, same: same, record: record,
	}
}

// conclude turns the outcome of a run into state, which publish turns into a status.
func (u *unit) conclude(ctx context.Context, r *run, err error, took time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel, u.syncing = nil, false
	u.setStored(r.record)
	close(u.running)
	u.running = nil
	u.objects.EndRun(r.record.Objects, time.Now())
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errSuperseded) || errors.Is(cause, context.Canceled)) {
		return false
	}
	u.carried = r.service.SyncRequest
	u.note(r, err)
	u.refresh = time.Now().Add(backoff.Jitter(u.engine.refreshPause(), refreshJitter))
	u.problem, u.failures, u.guarded, u.dirty, u.sure = nil, nil, report.Guarded{}, err != nil, inventory.Applied{}
	if err != nil {
		u.fail(ctx, err)
		trace.SpanFromContext(ctx).SetStatus(codes.Error, u.problem.Reason.String())
	} else {
		u.attempts, u.retryAt, u.since, u.lost = 0, time.Time{}, time.Time{}, false
		u.sure = r.service.Inputs()
	}
	if u.nudged { // the run may have looked before what it was nudged for
		u.dirty, u.retryAt = true, time.Time{}
	}
	u.engine.params.Observer(context.WithoutCancel(ctx), took, u.problem)
	return err == nil
}

// note takes over how long a run took that brought something new. u.mu is held.
func (u *unit) note(r *run, err error) {
	if !r.news || u.stage != untried {
		return
	}
	u.timings = r.timings
	if err == nil {
		u.stage = applied
	}
}

// fail notes why a run failed and when to try again. u.mu is held.
func (u *unit) fail(ctx context.Context, err error) {
	u.problem = reason.ProblemOf(err)
	if failed, ok := errors.AsType[*failedObjects](err); ok {
		u.failures = failed.objects
	}
	if held, ok := errors.AsType[*heldPrune](err); ok {
		u.guarded = held.guard()
	}
	u.retryAt = time.Now().Add(u.engine.params.Settings.Retry.Delay(u.attempts))
	if lasting(u.problem) && u.order != decide.Leave { // hooks of a removal are run again: nobody could change them
		u.retryAt = u.refresh
	}
	u.attempts++
	u.engine.params.Logger.WarnContext(ctx, "service could not be reconciled", slog.String("leat.service", u.name),
		slog.String("reason", u.problem.Reason.String()), slog.String("problem", u.problem.Message),
		slog.Time("retry_at", u.retryAt))
}

// keep records that an inventory was stored, so that observations of its objects count from now on.
func (u *unit) keep(record inventory.Record) {
	u.objects.List(record.Objects.Clone())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setStored(record)
}

// setStored takes over what is stored besides the objects. u.mu is held.
func (u *unit) setStored(record inventory.Record) {
	record.Objects = inventory.Set{}
	u.stored = record
}
