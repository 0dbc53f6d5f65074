// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/reconcile/slots"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
)

// runFunc carries out a run.
type runFunc func(ctx context.Context, job execute.Job) (execute.Outcome, error)

// release hands over the objects that other services want. If nothing is left, the removal of the
// service needs no confirmation: it cannot delete anything.
func (u *unit) release(ctx context.Context) {
	u.work(ctx, decide.Release, func(ctx context.Context, job execute.Job) (execute.Outcome, error) {
		outcome, isEmpty, err := u.shared.executor.Release(ctx, job)
		if isEmpty {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.state.ConfirmRemoval()
		}
		return outcome, err
	})
}

// preview computes a dry run. It changes no object of the service. A preview that was interrupted leaves no result, so that
// the unit starts another one.
func (u *unit) preview(ctx context.Context) {
	u.work(ctx, decide.Preview, func(ctx context.Context, job execute.Job) (execute.Outcome, error) {
		u.mu.Lock()
		seen := u.objects.Signature()
		u.state.Preview.Result = nil
		u.mu.Unlock()
		outcome, err := u.shared.executor.Spare(ctx, job)
		if err != nil {
			return outcome, err
		}
		result, err := u.shared.executor.Preview(ctx, job)
		if ctx.Err() == nil {
			u.mu.Lock()
			u.state.Preview, u.previewed = decide.DryRun{Of: job.Service.Inputs(), Result: result}, seen
			u.mu.Unlock()
		}
		return outcome, err
	})
}

// work carries out a run in a slot, and reports whether it succeeded. It decides again after it got
// the slot: a unit may have waited for minutes, and must not carry out an order that was superseded
// meanwhile.
func (u *unit) work(ctx context.Context, what decide.Action, do runFunc) bool {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	turn := slots.NewTurn(ctx, stop, u.shared.slots, u.name, u.shared.settings.ApplyTimeout)
	if !turn.Take() {
		return false
	}
	defer turn.Release()
	run, job, ok := u.begin(what, stop)
	if !ok {
		return false // the order changed while the unit waited for the slot
	}
	job.Turn = turn
	if run.IsRepeat {
		do = u.shared.executor.Verify
	}
	u.publish(time.Now())
	started := time.Now()
	ctx, span := u.shared.trace(ctx, what, run, u.name)
	defer span.End()
	outcome, err := do(ctx, job)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // the cause may be that the run took too long
	}
	isDone := u.conclude(ctx, run, outcome, err, time.Since(started))
	if !errors.Is(err, manifest.ErrUnanswered) && ctx.Err() == nil && u.shared.hub.drop(u.name) {
		u.shared.hub.answered() // what this service waited for has come
	}
	if isDone && what == decide.Apply {
		u.shared.secrets.settle(u.name)
	}
	return isDone
}

// begin begins a run if the action is still wanted, and returns copies of everything that the run
// needs. From here to conclude, the unit's state changes only by orders and observations.
func (u *unit) begin(what decide.Action, stop context.CancelCauseFunc) (decide.Run, execute.Job, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.state.Wanted(u.factsLocked(time.Now())) != what {
		return decide.Run{}, execute.Job{}, false
	}
	run := u.state.BeginRun(what)
	run.IsRepeat = run.IsRepeat && u.objects.AreUndisturbed() && !u.record.AsksFacts
	u.objects.BeginRun()
	u.cancel, u.running = stop, make(chan struct{})
	return run, u.jobLocked(run.Service, run), true
}

// jobLocked returns a job for an entry.
func (u *unit) jobLocked(s plan.Service, run decide.Run) execute.Job {
	record := u.record
	record.Objects = u.objects.Listed()
	return execute.Job{
		Name: u.name, Service: s, Rules: u.rules, Record: record, Objects: u.objects, Member: u.member,
		Arrived: u.state.Change.Arrived, Timings: u.state.Change.Timings,
		IsChange: run.IsChange, IsRequested: run.IsRequested, Progress: u, Rendered: u.rendered(),
	}
}

// rendered returns the function that is called after each render of the unit: it runs again
// when an object changes that the render has read.
func (u *unit) rendered() func(ctx context.Context, manifests manifest.Manifests, err error) {
	return func(ctx context.Context, manifests manifest.Manifests, err error) {
		u.mu.Lock()
		u.state.Attempt.Notice = manifests.Notice
		u.mu.Unlock()
		if err == nil {
			u.shared.secrets.setRendered(u.name, manifests.Substitution)
		}
		u.shared.watched.set(ctx, u.name, manifests.Reads, func() {
			u.mu.Lock()
			u.state.Nudge()
			u.mu.Unlock()
			u.Wake()
		})
	}
}

// diffJob returns a job that changes nothing, for the newest entry with the bundles of a candidate.
func (u *unit) diffJob(candidate []plan.Bundle) execute.Job {
	u.mu.Lock()
	defer u.mu.Unlock()
	entry := u.state.Newest
	if len(candidate) > 0 {
		entry.Bundles = candidate
	}
	job := u.jobLocked(entry, decide.Run{})
	job.Rendered = nil // a candidate's reads are not the applied ones
	job.Rules = submit.NewRules(entry.Spec.Policy)
	return job
}

// conclude takes over the outcome of a run, which publish turns into a status. The results of a
// superseded run count, but its failure does not, because it was ended on purpose. It reports
// whether the run succeeded.
func (u *unit) conclude(ctx context.Context, run decide.Run, outcome execute.Outcome, err error, took time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	u.cancel, u.state.IsSyncing = nil, false
	u.setRecordLocked(outcome.Record)
	close(u.running)
	u.running = nil
	u.objects.EndRun(outcome.Record.Objects, now)
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errSuperseded) || errors.Is(cause, context.Canceled)) {
		return false
	}
	failure := u.shared.failureOf(u, err, u.state.Attempt.Failed, now)
	u.state.EndRun(run, outcome.Timings, failure, u.shared.nextRefresh(now))
	if failure != nil {
		trace.SpanFromContext(ctx).SetStatus(codes.Error, failure.Problem.Reason.String())
		u.shared.logger.WarnContext(ctx, "service could not be reconciled", slog.String("leat.service", u.name),
			slog.String("reason", failure.Problem.Reason.String()), slog.String("problem", failure.Problem.Message),
			slog.Time("retry_at", u.state.Attempt.RetryAt))
	}
	u.shared.observer(context.WithoutCancel(ctx), took, outcome.Spent, u.state.Attempt.Problem)
	return err == nil
}

// failureOf returns the failure of a unit's run after so many consecutive ones, or nil.
func (s *shared) failureOf(u *unit, err error, failed int, now time.Time) *decide.Failure {
	if err == nil {
		return nil
	}
	f := &decide.Failure{Problem: reason.ProblemOf(err)}
	if errors.Is(err, manifest.ErrUnanswered) {
		retry := func() { u.tryAgain((*decide.State).RetryUnanswered) }
		f.RetryAt = now.Add(s.hub.failed(u.name, err, failed, retry))
	} else {
		f.RetryAt = now.Add(s.settings.Retry.Delay(failed))
	}
	if failed, ok := errors.AsType[*execute.Failures](err); ok {
		f.Objects = failed.Objects
	}
	if held, ok := errors.AsType[*execute.HeldPrune](err); ok {
		f.Guarded = held.Guarded()
	}
	return f
}

// saveOnce stores that objects that run once have completed. After a failure it waits longer each
// time, as runs do, so that it does not overload an API server that refuses to store.
func (u *unit) saveOnce(ctx context.Context, now time.Time) {
	if !u.objects.HasUnsavedOnce() || u.objects.Len() == 0 {
		u.onceFailed, u.onceRetryAt = 0, time.Time{}
		return
	}
	if now.Before(u.onceRetryAt) {
		return
	}
	record := u.storedRecord()
	err := u.shared.inventories.Save(ctx, record)
	if err == nil {
		u.onceFailed, u.onceRetryAt = 0, time.Time{}
		u.Saved(record)
		return
	}
	u.onceRetryAt = time.Now().Add(u.shared.settings.Retry.Delay(u.onceFailed))
	u.onceFailed++
	if ctx.Err() == nil {
		u.shared.logger.WarnContext(ctx, "completion of an object cannot be stored, retrying",
			slog.String("leat.service", u.name), slog.Time("retry_at", u.onceRetryAt), slog.Any("error", err))
	}
}

// storedRecord returns the stored inventory with the known state of its objects.
func (u *unit) storedRecord() inventory.Record {
	u.mu.Lock()
	record := u.record
	u.mu.Unlock()
	record.Objects, record.Once = u.objects.Listed(), u.objects.Once()
	return record
}

// Saved implements execute.Progress. An inventory was stored, so observations of its objects count
// from now on.
func (u *unit) Saved(record inventory.Record) {
	u.objects.List(record.Objects.Clone(), record.Once)
	hide(u.objects, u.shared.kinds.set(u.name, record))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setRecordLocked(record)
}

// Await implements execute.Progress.
func (u *unit) Await(ctx context.Context, holds func() bool) error {
	for !holds() {
		u.publish(time.Now())
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait: %w", context.Cause(ctx))
		case <-u.wake:
		}
	}
	return nil
}

// trace begins the span of a run. A run that brings a change of the plan continues the trace of the
// commit or edit that the plan names. Any other run, such as a refresh hours later, begins a trace
// of its own that links to it.
func (s *shared) trace(ctx context.Context, what decide.Action, run decide.Run, service string) (context.Context, trace.Span) {
	carrier := propagation.MapCarrier{"traceparent": run.Service.Traceparent}
	cause := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	var digests, commits []string
	for _, b := range run.Service.Bundles {
		digests, commits = append(digests, b.Digest.String()), append(commits, b.Commit)
	}
	options := []trace.SpanStartOption{trace.WithAttributes(
		attribute.String("leat.service", service), attribute.String("leat.cluster.uid", s.owner()),
		attribute.StringSlice("leat.digest", digests), attribute.StringSlice("leat.commit", commits),
	)}
	switch {
	case !cause.IsValid():
	case what == decide.Apply && run.IsChange:
		ctx = trace.ContextWithRemoteSpanContext(ctx, cause)
	default:
		options = append(options, trace.WithLinks(trace.Link{SpanContext: cause}))
	}
	return s.tracer.Start(ctx, "service."+what.String(), options...)
}
