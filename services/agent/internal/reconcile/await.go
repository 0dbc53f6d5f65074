// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

// turn is a run's right to work on the cluster: one of the engine's slots, for so long at a stretch. It is for the goroutine of
// the run.
type turn struct {
	slots   *slots
	service string
	limit   time.Duration
	run     context.CancelCauseFunc // ends the run
	ended   <-chan struct{}         // closed when the run is ended

	slot  *slot       // nil while none is held
	alarm *time.Timer // of the slot that is held
}

// take waits for a slot. It reports false when the run ended before there was one.
func (t *turn) take() bool {
	select {
	case <-t.ended: // also where a slot is free at the same time
		return false
	default:
	}
	if t.slot = t.slots.take(t.service, t.ended); t.slot == nil {
		return false
	}
	t.alarm = time.AfterFunc(t.limit, func() { t.run(overdue(t.limit)) })
	return true
}

// leave gives the slot back, if one is held.
func (t *turn) leave() {
	if t.slot == nil {
		return
	}
	t.alarm.Stop()
	t.slots.leave(t.slot)
	t.slot = nil
}

// renew lets the time at a stretch begin anew.
func (t *turn) renew() {
	t.alarm.Reset(t.limit)
	t.slots.renew(t.slot)
}

func overdue(limit time.Duration) error {
	return fmt.Errorf("not done within %v: %w", limit, context.DeadlineExceeded)
}

// await waits until what is observed makes until true. Meanwhile the run has no slot, and its time does not pass. It returns the
// cause when ctx ends first, which a newer plan makes happen at once; where the run itself goes on, it has its slot again by then.
//
// Until is called after everything that wakes the unit: observations of the service's objects and hooks, and new orders.
func (r *run) await(ctx context.Context, until func() bool) error {
	if until() {
		return nil
	}
	r.turn.leave()
	began := time.Now()
	err := r.unit.watchFor(ctx, until)
	r.waited += time.Since(began)
	if !r.turn.take() && err == nil {
		<-ctx.Done() // which is of the run
		err = context.Cause(ctx)
	}
	return err
}

func (u *unit) watchFor(ctx context.Context, until func() bool) error {
	for !until() {
		u.publish(time.Now())
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait: %w", context.Cause(ctx))
		case <-u.wake:
		}
	}
	return nil
}

// follow follows objects that are not, or not for long, among those of the service. Every change
// wakes the unit, and so continues await.
func (r *run) follow(ctx context.Context, refs []inventory.Ref) *follow.Follower {
	return follow.Start(ctx, r.cluster, refs, func(inventory.Ref, follow.Sight) { signal(r.unit.wake) })
}
