// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// tenure is the time from winning the lease of a repository to losing it. One goroutine uses it.
type tenure struct {
	shared   *shared
	status   *status
	local    *localMirror
	copier   *copier
	inbox    *inbox
	handover *handover
	held     *lease.Held
	outbox   *outbox
}

// handedOver is how a tenure ends that gave its repository away.
type handedOver struct{ offer *offer }

// Error implements error.
func (h *handedOver) Error() string { return "handed over to " + h.offer.successor }

// run fetches whenever a fetch is due, and publishes what changed. It returns when the lease is
// lost, ctx is done, a newer owner was seen, or the repository is handed over.
func (t *tenure) run(ctx context.Context) error {
	// Whatever the owner before may have fetched without being able to publish it, this event
	// covers.
	t.outbox.add(mirror.Event{All: true, Time: time.Now()})
	for ctx.Err() == nil {
		changed := t.status.changes.Next() // taken first: what changes during the round wakes the next one
		if err := t.outbox.publish(ctx); err != nil {
			return err
		}
		if err := t.handOver(ctx); err != nil {
			return err
		}
		if t.status.fetching.read().schedule.IsDue(time.Now()) {
			if err := t.fetch(ctx); err != nil {
				return err
			}
			continue
		}
		if !t.addNews() {
			t.await(ctx, changed)
		}
	}
	return context.Cause(ctx)
}

// await blocks until something changed, it is time to fetch or to publish, or ctx is done.
func (t *tenure) await(ctx context.Context, changed <-chan struct{}) {
	wait := time.Duration(math.MaxInt64) // where nothing is scheduled
	if due, isScheduled := t.status.fetching.read().schedule.Due(); isScheduled {
		wait = time.Until(due)
	}
	if at := t.outbox.publishAt; !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	_ = wake.Await(ctx, changed, wait) // the caller checks ctx
}

// addNews queues an event for what changed without a fetch, and reports whether it did: refs that a
// new policy delivers otherwise, an announcement, or the repository's health.
func (t *tenure) addNews() bool {
	event := mirror.Event{Time: time.Now()}
	event.Merge(mirror.Event{Changed: t.status.holding.takeUnreported(), Time: event.Time})
	if isAnnounced := t.inbox.isAnnounced.Swap(false); isAnnounced || event.All || len(event.Changed) > 0 {
		t.outbox.add(event)
		return true
	}
	return t.outbox.addIfChanged(event)
}

// handOver ends the tenure in favour of the replica that the repository was offered to. No fetch is
// running and none begins any more, and the successor is compared once more: what it holds now is
// all that there is.
func (t *tenure) handOver(ctx context.Context) error {
	o := t.inbox.offer.Swap(nil)
	if o == nil || !t.canHandOver(ctx, o) {
		return nil
	}
	t.held.Bequeath(o.successor, reservation)
	return &handedOver{offer: o}
}

// canHandOver reports whether the repository can be handed over now, and answers the offer where it
// cannot.
func (t *tenure) canHandOver(ctx context.Context, o *offer) bool {
	err := t.handover.compare(ctx, o.successor)
	if t.outbox.pending != nil {
		err = errUnpublished
	}
	if err != nil {
		o.done <- err
	}
	return err == nil
}

// fetch waits for its turn, makes one fetch and takes its outcome over. The error is the lease's or
// the context's: an upstream that fails is a state, not an error.
func (t *tenure) fetch(ctx context.Context) error {
	leave, err := t.shared.enter(ctx, t.status.definition())
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		t.postpone(quiet)
		return nil
	}
	if err != nil {
		return err
	}
	defer leave()
	q := queueFetch
	if !t.status.holding.read().content.Exists() {
		q = queueClone
	}
	release, err := t.shared.slot(ctx, q)
	if err != nil {
		return err
	}
	defer release()
	unlock, err := t.local.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !t.status.holding.read().content.Exists() {
		t.copier.inherit(ctx)
	}
	return t.fetchNow(ctx)
}

// fetchNow makes the fetch. The caller is the writer of the mirror.
func (t *tenure) fetchNow(ctx context.Context) error {
	// The definition first and the policy second: see status.
	was := t.status.fetching.change((*fetchState).begin)
	verifier, have, _ := t.status.holding.policy()
	if was.cause.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, was.cause)
	}
	result := fetchResult{isClone: !have.Exists()}
	ctx, span := t.shared.Tracer.Start(ctx, "mirror.fetch", trace.WithAttributes(
		attribute.String("leat.repository", t.status.name), attribute.String("leat.repository.uid", t.status.uid),
		attribute.Int64("leat.epoch", int64(t.held.Epoch())), attribute.Bool("leat.clone", result.isClone)))
	defer span.End()
	started := time.Now()
	t.shared.metrics.began(ctx, was.requestedAt, started)
	fetched, err := t.fetchWithin(ctx, t.timeout(was.definition, have), mirror.FetchParams{
		Definition: was.definition, Have: have, Epoch: t.held.Epoch(), Guard: t.held.Check, IsRequested: was.schedule.HasRequest(),
		Received: t.shared.metrics.receiver(ctx, result.isClone),
		Admit: func(ctx context.Context, reader content.Reader, c mirror.Content) (mirror.Content, error) {
			return verifier.Admit(ctx, reader, have, c)
		},
	})
	result.took = time.Since(started)
	if gone := t.checkRight(ctx); gone != nil {
		t.status.fetching.change((*fetchState).abandon)
		span.SetStatus(codes.Error, "ownership lost")
		return gone
	}
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		t.postpone(quiet) // first, so that callers who wait for this fetch get the reason
		t.status.fetching.change((*fetchState).abandon)
		return nil
	}
	t.finish(&result, was.definition, fetched, err)
	t.shared.metrics.fetched(ctx, result)
	t.report(ctx, span, result, err)
	return nil
}

// timeout returns how long a fetch may take.
func (t *tenure) timeout(def mirror.Definition, have mirror.Content) time.Duration {
	isPartial := def.PartialClone || def.Type.IsArtifacts()
	if !have.Exists() || have.Partial != isPartial {
		return t.shared.Settings.CloneTimeout
	}
	return t.shared.Settings.FetchTimeout
}

// fetchWithin fetches within a time limit of its own, which counts as a failure of the upstream.
func (t *tenure) fetchWithin(ctx context.Context, timeout time.Duration, p mirror.FetchParams) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fetched, err := t.shared.Backend.Fetch(limited, p)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return mirror.Content{}, &mirror.UpstreamError{
			Reason:  reason.UpstreamUnreachable,
			Message: fmt.Sprintf("The upstream did not finish within %s; Leat retries by itself.", timeout),
			Cause:   err,
		}
	}
	return fetched, err
}

// checkRight returns why the result of a fetch may not be used any more, or nil.
func (t *tenure) checkRight(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.held.Check()
}

// finish takes the outcome over: the content first, then the state of the fetches.
func (t *tenure) finish(result *fetchResult, def mirror.Definition, fetched mirror.Content, err error) {
	if err == nil {
		before := t.status.holding.replace(fetched)
		result.changed = before.Changed(fetched)
		result.isAll = len(result.changed) > mirror.MaxChangedRefs || !before.Exists()
		if fetched.Partial != before.Partial {
			t.inbox.announce()
		}
	}
	t.status.fetching.change(func(s *fetchState) {
		result.hasTurned = s.finish(def, err, time.Now())
		if err != nil {
			result.reason = s.problem.Reason
		}
	})
	if result.reason == reason.StorageFull {
		t.shared.diskFull.Set()
	}
}

// postpone puts the next fetch off, because the host wants to be left alone.
func (t *tenure) postpone(quiet *mirror.QuietError) {
	t.status.fetching.change(func(s *fetchState) { s.postpone(quiet, time.Now()) })
	t.outbox.addIfChanged(mirror.Event{Time: time.Now()})
}

// report puts a fetch into the log, the trace and the outbox. A failure is a warning when it
// begins. While it lasts it is for debugging: a forge that is down for a day would fill the log
// with a line for each of a thousand repositories every few minutes.
func (t *tenure) report(ctx context.Context, span trace.Span, result fetchResult, err error) {
	logger := t.shared.logger(t.status).With(slog.Uint64("leat.epoch", t.held.Epoch()), slog.Duration("duration", result.took))
	event := mirror.Event{
		Changed: result.changed, All: result.isAll, Time: time.Now(), FetchDuration: result.took, Traceparent: traceparent(ctx),
	}
	span.SetAttributes(attribute.Int("leat.refs.changed", len(result.changed)))
	if err == nil && (result.isAll || len(result.changed) > 0) {
		logger.InfoContext(ctx, "refs moved", slog.Int("refs", len(result.changed)))
		t.outbox.add(event)
		return
	}
	t.outbox.addIfChanged(event)
	switch {
	case err != nil:
		level := slog.LevelDebug
		if result.hasTurned {
			level = slog.LevelWarn
		}
		span.SetStatus(codes.Error, result.reason.String())
		logger.Log(ctx, level, "fetch did not succeed", slog.String("reason", result.reason.String()), slog.Any("error", err))
	case result.hasTurned:
		logger.InfoContext(ctx, "fetch succeeds again")
	default:
		logger.DebugContext(ctx, "refs unchanged")
	}
}

// traceparent returns the trace that ctx belongs to, as an event carries it.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
