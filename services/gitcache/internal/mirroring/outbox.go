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

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// outbox holds the event that a tenure has not published yet. One goroutine uses it. While the log
// does not answer, later events are merged into the one that waits: their order matters, their
// number does not.
type outbox struct {
	shared *shared
	status *status
	held   *lease.Held

	sequence  uint64
	last      mirror.State  // as the last event had it
	pending   *mirror.Event // nil: everything is published
	failures  int           // of publishing it
	publishAt time.Time     // when to try next; zero: nothing is pending
}

// add queues an event with the state of now.
func (o *outbox) add(e mirror.Event) {
	o.last = o.status.read()
	e.Repository, e.UID, e.Epoch, e.State = o.status.name, o.status.uid, o.held.Epoch(), o.last
	if o.pending == nil {
		o.pending, o.publishAt = &mirror.Event{}, time.Now()
	}
	o.pending.Merge(e)
}

// addIfChanged queues an event only if phase, problem, held refs or notices differ from the last event,
// and reports whether it did.
func (o *outbox) addIfChanged(e mirror.Event) bool {
	now := o.status.read()
	if now.Phase == o.last.Phase && equalProblems(now.Problem, o.last.Problem) &&
		slices.Equal(now.HeldRefs, o.last.HeldRefs) && slices.Equal(now.Notices, o.last.Notices) {
		return false
	}
	o.add(e)
	return true
}

func equalProblems(a, b *mirror.Problem) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// publish appends the pending event, if it is time to. Only a stale epoch and a lost lease are
// errors: while the log does not answer, the event stays pending.
func (o *outbox) publish(ctx context.Context) error {
	if o.pending == nil || time.Now().Before(o.publishAt) {
		return nil
	}
	if err := o.held.Check(); err != nil {
		return err
	}
	o.pending.Sequence = o.sequence + 1
	err := o.shared.Events.Append(ctx, *o.pending)
	switch {
	case err == nil:
		o.sequence++
		o.pending, o.failures, o.publishAt = nil, 0, time.Time{}
		return nil
	case errors.Is(err, mirror.ErrEpochStale):
		return fmt.Errorf("publish event of %q: %w", o.status.name, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if o.failures == 0 {
		o.shared.logger(o.status).WarnContext(ctx, "event kept back", slog.Any("error", err))
	}
	retry := backoff.Policy{Initial: 200 * time.Millisecond, Max: 5 * time.Second}
	o.publishAt = time.Now().Add(retry.Delay(o.failures))
	o.failures++
	return nil
}
