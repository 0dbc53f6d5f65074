// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/reconcile/symptoms"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// shared holds the parts that all units of an engine use. Each part is safe for concurrent use.
type shared struct {
	settings     Settings
	executor     *execute.Executor
	ownership    *ownership.Registry
	slots        *slots.Slots
	hub          *hubWait
	rules        *healthRules
	kinds        *watchedKinds
	symptoms     *symptoms.Board
	secrets      *secrets
	relations    relations
	events       events
	watched      watchlist
	inventories  *inventory.Cache
	fingerprints fingerprint.Store
	reporter     Reporter
	observer     Observer
	tracer       trace.Tracer
	owner        func() string
	logger       *slog.Logger
	refresh      atomic.Int64 // interval of examining everything again, in nanoseconds
}

// refreshJitter spreads periodic work.
const refreshJitter = 0.25

// nextRefresh returns when to examine an unchanged service again.
func (s *shared) nextRefresh(now time.Time) time.Time {
	return now.Add(backoff.Jitter(time.Duration(s.refresh.Load()), refreshJitter))
}

// missing returns the reasons for which the newest entry of a service must wait. The followed
// prerequisites are nil if no change waits for objects.
func (s *shared) missing(service string, newest plan.Service, followed *prerequisites) []string {
	services := s.relations.unmet(service, newest.Spec.ServicesNeeded())
	wanted := prerequisitesOf(newest)
	_, bounds, _ := readerOf(s.executor, newest, wanted) // look reports the error
	return append(services, followed.missing(wanted, bounds)...)
}

// unit is one service. Only its goroutine works on the cluster. All other callers change its state
// and wake it.
//
// The goroutine repeats one cycle: it decides what to work on (look), starts or settles tests,
// publishes the status if it changed, stores the state for a later process, and then carries out
// the due action or rests until something changes. No change is lost between two looks: each change
// of the state leaves a token in wake, and one token is enough for any number of changes, because
// each look examines all of them.
//
// mu is never held during a call to the cluster, the disk or another unit. A run works on the
// copies that begin made, and conclude takes over its results. A newer order ends the run by
// cancelling its context.
type unit struct {
	shared  *shared
	name    string
	wake    wake.Signal // one token when something below changed
	objects *observe.Objects
	member  *ownership.Member                    // set before the unit's goroutine starts
	test    atomic.Pointer[inventory.TestResult] // the test that runs now; nil: none does

	// Only the goroutine uses these:
	tests       *testRun  // the active tests
	onceFailed  int       // consecutive failures to store completions
	onceRetryAt time.Time // when to store them again; zero: nothing is to be stored

	mu            sync.Mutex // guards what follows
	state         decide.State
	record        inventory.Record // the inventory as stored, without its objects
	rules         submit.Rules     // the compiled policy of state.Desired
	prerequisites *prerequisites   // nil: no change waits for objects
	previewed     fingerprint.Sum  // the objects' state in the latest dry run
	status        report.Status    // last reported
	isClosed      bool             // the goroutine ends, and accepts no more orders
	running       chan struct{}    // closed at the end of the active run; nil without one
	cancel        context.CancelCauseFunc
}

// newUnit returns the unit of a service with the state that an earlier process has stored: its
// inventory, and the fingerprints of its applied objects. An object without a fingerprint is
// applied again.
func newUnit(s *shared, record inventory.Record, table fingerprint.Table) *unit {
	u := &unit{shared: s, name: record.Service, wake: wake.NewSignal(), objects: observe.New(record.Objects, table, record.Once)}
	u.state = decide.New(record, entryOf(record), u.objects.HasUnknown(), s.nextRefresh(time.Now()))
	u.setRecordLocked(record)
	return u
}

// entryOf returns the plan's entry that an earlier process has applied. An entry without a name is
// unknown.
func entryOf(record inventory.Record) (s plan.Service) {
	if len(record.Entry) == 0 || json.Unmarshal(record.Entry, &s) != nil {
		return plan.Service{}
	}
	return s
}

func (u *unit) setRecordLocked(record inventory.Record) {
	record.Objects = inventory.Set{}
	u.record = record
	u.state.SetStored(record)
}

// run is the unit's goroutine. It calls forget when the service is removed, and ends if that
// returns true.
func (u *unit) run(ctx context.Context, forget func(*unit) bool) {
	defer func() { u.prerequisites.stop(); u.tests.end() }()
	for ctx.Err() == nil {
		u.look(ctx, time.Now())
		u.advanceTests(ctx)
		u.publish(time.Now())
		u.SaveFingerprints(ctx)
		u.saveOnce(ctx, time.Now())
		switch what, until := u.next(time.Now()); what {
		case decide.Apply:
			u.work(ctx, decide.Apply, u.shared.executor.Sync)
		case decide.Remove:
			if isEmpty := u.work(ctx, decide.Remove, u.shared.executor.Remove); isEmpty && forget(u) {
				u.end(ctx)
				return
			}
		case decide.Release:
			u.release(ctx)
		case decide.Preview:
			u.preview(ctx)
		case decide.Rest:
			if !u.onceRetryAt.IsZero() && (until.IsZero() || u.onceRetryAt.Before(until)) {
				until = u.onceRetryAt
			}
			rest(ctx, u.wake, until)
		}
	}
	u.SaveFingerprints(ctx)
}

// look decides what the unit works on. Time alone can change the decision, for example when a
// window opens, and so can other services. look follows prerequisites from the moment that a change
// waits for objects until the change is applied. While a failed run waits for its next attempt they
// are still followed.
func (u *unit) look(ctx context.Context, now time.Time) {
	u.mu.Lock()
	u.admitLocked(now)
	var wanted []prerequisite
	if u.state.HasChange() {
		wanted = prerequisitesOf(u.state.Newest)
	}
	reader, bounds, denied := readerOf(u.shared.executor, u.state.Newest, wanted)
	last := u.prerequisites
	if last.areFor(wanted, bounds) {
		u.mu.Unlock()
		return
	}
	u.prerequisites = nil
	if len(wanted) > 0 {
		u.prerequisites = followPrerequisites(ctx, reader, denied, wanted, u.shared.secrets.judging(u.shared.rules.judge), u.Wake)
	}
	u.mu.Unlock()
	last.stop() // without the lock, which its callbacks may take
}

// admitLocked makes the newest entry the desired one if it may be applied now. Otherwise the
// applied entry stays desired, so that drift is corrected to it and not to a change that waits.
func (u *unit) admitLocked(now time.Time) {
	missing := func() []string { return u.shared.missing(u.name, u.state.Newest, u.prerequisites) }
	if u.state.Admit(now, u.cancel != nil, missing) {
		u.supersedeLocked()
		u.rules = submit.NewRules(u.state.Desired.Spec.Policy)
		u.objects.SetDriftMode(u.state.Desired.Spec.Policy.Drift, now)
	}
	u.state.DeferRefresh(u.factsLocked(now), u.shared.nextRefresh(now))
}

// supersedeLocked ends a run whose entry is no longer desired.
func (u *unit) supersedeLocked() {
	if u.cancel != nil {
		u.cancel(errSuperseded)
	}
}

// next returns the action to carry out now, or until when to rest.
func (u *unit) next(now time.Time) (decide.Action, time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.Next(u.factsLocked(now))
}

func (u *unit) factsLocked(now time.Time) decide.Facts {
	f := decide.Facts{Now: now, Phase: u.status.Phase}
	f.CorrectionDue, f.ContestExpires = u.objects.Schedule()
	f.IsNeeded = u.state.Order == decide.Leave && u.shared.relations.isNeeded(u.name)
	f.HasNewObjects = u.state.IsPreviewRefreshDue(now) && u.objects.Signature() != u.previewed
	return f
}

// rest blocks until there is a token in wake. A zero time means until then.
func rest(ctx context.Context, wake wake.Signal, until time.Time) {
	wait := time.Duration(math.MaxInt64)
	if !until.IsZero() {
		wait = time.Until(until)
	}
	_ = wake.Await(ctx, wait) // the caller sees the end of ctx itself
}

// end deletes the stored state of a service that was removed.
func (u *unit) end(ctx context.Context) {
	if err := u.shared.fingerprints.Delete(context.WithoutCancel(ctx), u.name); err != nil {
		u.shared.logger.WarnContext(ctx, "fingerprints cannot be removed", slog.String("leat.service", u.name), slog.Any("error", err))
	}
	u.shared.hub.drop(u.name)
	u.shared.reporter.Forget(u.name)
	u.shared.events.publish(report.Event{Time: time.Now(), Service: u.name, Message: "removed"})
}

// SaveFingerprints implements execute.Progress. Only the unit's goroutine calls it.
func (u *unit) SaveFingerprints(ctx context.Context) {
	if err := u.objects.Save(ctx, u.name, u.shared.fingerprints); err != nil {
		u.shared.logger.WarnContext(ctx, "fingerprints cannot be stored, a restart would apply the service again",
			slog.String("leat.service", u.name), slog.Any("error", err))
	}
}

// publish reports the unit's status if it changed.
func (u *unit) publish(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	order := u.state.Order
	if order == decide.Wait || u.isClosed || order == decide.Leave && u.state.Attempt.Problem == nil {
		u.shared.symptoms.Remove(u.name)
		return // no plan names the service, yet or any more
	}
	o := decide.Observed{Drift: u.objects.Drift(now), BadRules: u.shared.rules.problem(u.name)}
	o.RunningTest = u.test.Load()
	o.Objects, o.Counts = u.objects.Statuses(u.state.Attempt.Failures)
	o.Objects = report.Attention(o.Objects) // the messages of the others are not read
	for i := range o.Objects {
		o.Objects[i].Health = u.shared.secrets.verdict(u.name, o.Objects[i].Health)
	}
	u.shared.symptoms.Explain(u.name, u.state.UnhealthySince, o.Objects)
	status := u.state.Assess(now, o, u.status)
	u.shared.symptoms.Put(symptoms.Hanging{
		Name: u.name, Service: u.state.Desired, Since: u.state.UnhealthySince, Objects: hangingOf(status, u.objects), Changed: u.Wake,
	})
	if status.Equal(u.status) {
		return
	}
	isNewPhase := status.Phase != u.status.Phase
	u.status = status
	u.shared.relations.setStatus(status)
	u.shared.reporter.Report(status)
	if isNewPhase {
		u.shared.events.publish(report.Event{Time: now, Service: u.name, Phase: status.Phase, Message: headline(status)})
	}
}

// hangingOf returns those objects of a status that are in the cluster and need attention.
func hangingOf(status report.Status, objects *observe.Objects) (hanging []inventory.Object) {
	for _, one := range status.Objects {
		if o, isListed := objects.Get(one.Ref.Key); isListed && one.Health.State != health.Missing {
			hanging = append(hanging, o)
		}
	}
	return hanging
}

func headline(s report.Status) string {
	if s.Problem != nil {
		return s.Problem.Message
	}
	return s.Phase.String()
}

// Wake implements execute.Progress: the unit looks again at everything.
func (u *unit) Wake() { u.wake.Set() }
