// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// tenure is the time from winning the lease of a repository to losing it. One goroutine uses it.
type tenure struct {
	repo *Repository
	held *lease.Held

	sequence  uint64
	health    mirror.Problem // as last put into an event; zero: none
	phase     mirror.Phase
	heldRefs  []string
	pending   *mirror.Event // an event that has not reached the log yet
	attempts  int           // failed tries to publish it
	publishAt time.Time     // when to try next; zero: nothing is pending
}

// run fetches whenever a fetch is due. It returns when the lease is lost, ctx is done, or a newer owner was seen.
func (t *tenure) run(ctx context.Context) error {
	// Whatever the owner before may have fetched without being able to tell, this event covers.
	t.note(mirror.Event{All: true, Time: time.Now()})
	for {
		if err := t.publish(ctx); err != nil {
			return err
		}
		if err := t.handOver(ctx); err != nil {
			return err
		}
		if err := t.repo.awaitDue(ctx, t.publishAt); err != nil {
			return err
		}
		if t.repo.isDue(time.Now()) {
			if err := t.fetch(ctx); err != nil {
				return err
			}
			continue
		}
		t.noteVerdict()
		t.noteState()
	}
}

// note queues an event. Events that could not be published are merged: their order matters, their number does not.
func (t *tenure) note(e mirror.Event) {
	e.Repository, e.UID, e.Epoch, e.State = t.repo.name, t.repo.uid, t.held.Epoch(), t.repo.State()
	t.health, t.phase, t.heldRefs = mirror.Problem{}, e.State.Phase, e.State.HeldRefs
	if e.State.Problem != nil {
		t.health = *e.State.Problem
	}
	if t.pending == nil {
		t.pending = &mirror.Event{}
	}
	t.pending.Merge(e)
	if t.publishAt.IsZero() {
		t.publishAt = time.Now()
	}
}

// noteHealth queues an event only if phase, problem or held refs differ from what the last event said.
func (t *tenure) noteHealth(e mirror.Event) {
	state := t.repo.State()
	var health mirror.Problem
	if state.Problem != nil {
		health = *state.Problem
	}
	if state.Phase != t.phase || health != t.health || !slices.Equal(state.HeldRefs, t.heldRefs) {
		t.note(e)
	}
}

// publish appends the pending event, if it is time to try. Only a stale epoch and a lost lease are errors: while the log
// does not answer the event stays pending.
func (t *tenure) publish(ctx context.Context) error {
	if t.pending == nil || time.Now().Before(t.publishAt) {
		return nil
	}
	if err := t.held.Check(); err != nil {
		return err
	}
	t.pending.Sequence = t.sequence + 1
	err := t.repo.shared.Events.Append(ctx, *t.pending)
	switch {
	case err == nil:
		t.sequence++
		t.pending, t.attempts, t.publishAt = nil, 0, time.Time{}
		return nil
	case errors.Is(err, mirror.ErrEpochStale):
		return fmt.Errorf("publish event of %q: %w", t.repo.name, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if t.attempts == 0 {
		t.repo.shared.Logger.WarnContext(ctx, "event kept back",
			slog.String("leat.repository", t.repo.name), slog.Any("error", err))
	}
	retry := backoff.Policy{Initial: 200 * time.Millisecond, Max: 5 * time.Second}
	t.publishAt = time.Now().Add(retry.Delay(t.attempts))
	t.attempts++
	return nil
}

// fetch makes one fetch and takes its outcome over. The error is the lease's or the context's; a failing upstream is a
// state, not an error.
func (t *tenure) fetch(ctx context.Context) error {
	r := t.repo
	leave, err := r.shared.enter(ctx, r.Definition())
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		t.postpone(quiet)
		return nil
	}
	if err != nil {
		return err
	}
	defer leave()
	release, err := r.shared.slot(ctx, r.State().FreshAt.IsZero())
	if err != nil {
		return err
	}
	defer release()
	if err := r.disk.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer r.disk.Release(1)
	if r.State().FreshAt.IsZero() {
		r.inherit(ctx)
	}
	ctx, p, timeout := r.beginFetch(ctx, t.held)
	p.Received = r.shared.metrics.receiver(ctx, !p.Have.Exists())
	ctx, span := r.shared.Tracer.Start(ctx, "mirror.fetch", trace.WithAttributes(
		attribute.String("leat.repository", r.name), attribute.String("leat.repository.uid", r.uid),
		attribute.Int64("leat.epoch", int64(p.Epoch)),
		attribute.Bool("leat.clone", !p.Have.Exists())))
	defer span.End()
	started := time.Now()
	content, err := r.shared.fetchOnce(ctx, p, timeout)
	took := time.Since(started)
	if gone := t.gone(ctx); gone != nil {
		r.abandonFetch()
		span.SetStatus(codes.Error, "ownership lost")
		return gone
	}
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		t.postpone(quiet) // first, so that who waits for this fetch is told why
		r.abandonFetch()
		return nil
	}
	outcome := r.finishFetch(p, content, err)
	if outcome.reason == mirror.ReasonStorageFull {
		r.shared.noteFull()
	}
	r.shared.metrics.fetched(ctx, outcome, took, !p.Have.Exists())
	t.report(ctx, span, outcome, err, took)
	return nil
}

// gone tells why the result of a fetch may no longer be used, if so.
func (t *tenure) gone(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.held.Check()
}

// report tells the log, the trace and the event log about a fetch.
func (t *tenure) report(ctx context.Context, span trace.Span, o outcome, err error, took time.Duration) {
	logger := t.repo.shared.Logger.With(slog.String("leat.repository", t.repo.name),
		slog.Uint64("leat.epoch", t.held.Epoch()), slog.Duration("duration", took))
	event := mirror.Event{Changed: o.changed, All: o.all, Time: time.Now(), FetchDuration: took, Traceparent: traceparent(ctx)}
	span.SetAttributes(attribute.Int("leat.refs.changed", len(o.changed)))
	switch {
	case err != nil:
		span.SetStatus(codes.Error, string(o.reason))
		logger.Log(ctx, o.level(), "fetch did not succeed", slog.String("reason", string(o.reason)), slog.Any("error", err))
		t.noteHealth(event)
	case o.all || len(o.changed) > 0:
		logger.InfoContext(ctx, "refs moved", slog.Int("refs", len(o.changed)))
		t.note(event)
	case o.turned:
		logger.InfoContext(ctx, "fetch succeeds again")
		t.noteHealth(event)
	default:
		logger.DebugContext(ctx, "refs unchanged")
		t.noteHealth(event)
	}
}

// level is that of a failure. One that merely goes on is told only to who asks for it: a forge that is down for a day would
// fill the log otherwise, with a line for each of a thousand repositories every few minutes.
func (o outcome) level() slog.Level {
	if o.turned {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
