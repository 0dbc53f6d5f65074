// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

// awaitHooks waits until hooks have ended, and notes what became of them. A hook that failed, now or earlier in the same run, fails
// the run.
func (r *run) awaitHooks(ctx context.Context, hooks []*hook) error {
	if len(hooks) == 0 {
		return nil
	}
	late := r.awaitEnds(ctx, hooks)
	if ctx.Err() != nil {
		return late
	}
	if err := r.saveHooks(ctx); err != nil { // before anything is deleted that tells how it ended
		return err
	}
	var failures []string
	for _, h := range hooks {
		if failure := r.record.Hooks.Ended[h.id()]; failure != "" {
			failures = append(failures, h.id()+" "+failure)
		}
	}
	if len(failures) > 0 {
		return reason.Errorf(reason.HookFailed, "%s", strings.Join(failures, "; "))
	}
	return late
}

// awaitEnds waits for the hooks that run, and notes their ends in the record. The error says that there are some left.
func (r *run) awaitEnds(ctx context.Context, hooks []*hook) error {
	var refs []inventory.Ref
	for _, h := range hooks {
		if h.launched {
			refs = append(refs, h.ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	timeout := r.service.Spec.HealthTimeoutOrDefault()
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	seen := r.follow(ctx, refs)
	defer seen.Stop()
	var left []string
	err := r.await(waiting, func() bool {
		left = r.gather(hooks, seen)
		return len(left) == 0
	})
	if errors.Is(err, errImpatient) {
		return reason.Errorf(reason.HealthTimeout, "not ended within %v: %s", timeout, strings.Join(left, "; "))
	}
	return err
}

// gather notes the hooks that have ended, and lists the others with how they fare.
func (r *run) gather(hooks []*hook, follower *follow.Follower) (left []string) {
	for _, h := range hooks {
		if !h.launched {
			continue
		}
		seen := follower.At(h.ref)
		state := r.engine.outcomeOf(seen.Last)
		switch {
		case !seen.Known:
			left = append(left, h.fares(seen.Err))
		case seen.Last == nil || string(seen.Last.GetUID()) != h.uid:
			r.ended(h, "was deleted before it ended")
		case state.ended && state.failed:
			r.ended(h, "failed: "+state.message)
		case state.ended: // also where it has been deleted since
			r.ended(h, "")
		case seen.Live == nil:
			r.ended(h, "was deleted before it ended")
		case seen.Err != nil:
			left = append(left, h.fares(seen.Err))
		default:
			left = append(left, strings.TrimSuffix(h.id()+": "+state.message, ": "))
		}
	}
	return left
}

// fares says of a hook that nothing is seen of it, and why.
func (h *hook) fares(err error) string {
	if err == nil {
		return h.id()
	}
	return fmt.Sprintf("%s cannot be seen: %v", h.id(), err)
}

// ended notes how a hook ended.
func (r *run) ended(h *hook, failure string) {
	h.launched = false
	r.record.Hooks = r.record.Hooks.End(h.id(), failure)
	message := "succeeded"
	if failure != "" {
		message = failure
	}
	r.tell(h.ref, fmt.Sprintf("%s hook %s", h.phase, message))
}

// tidy deletes the hooks of a phase that have ended and whose policy says so, also those of a run that was interrupted before it could.
func (r *run) tidy(ctx context.Context) error {
	for _, h := range r.tidying {
		failure, ended := r.record.Hooks.Ended[h.id()]
		_, there := r.record.Hooks.Get(h.ref.Key)
		when := order.OnSuccess
		if failure != "" {
			when = order.OnFailure
		}
		if !ended || !there || !h.Deletion.Has(when) {
			continue
		}
		if err := r.discard(ctx, inventory.Object{Ref: h.ref, UID: h.uid}); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a hook and forgets it, without waiting until it is gone.
func (r *run) discard(ctx context.Context, o inventory.Object) error {
	if err := r.certain(ctx, o, erase(r.cluster)); err != nil {
		return fmt.Errorf("delete hook %s: %w", o.Key, err)
	}
	r.record.Hooks = r.record.Hooks.Remove(o.Key)
	r.engine.ownership.Drop(o.Key, r.unit.name)
	return nil
}

// sweepHooks deletes what earlier runs left behind of hooks that left the manifests, or got new names.
func (r *run) sweepHooks(ctx context.Context) error {
	if !r.news || !r.service.Spec.Prune || len(r.record.Hooks.Objects) == 0 {
		return nil
	}
	current := inventory.Set{}
	for _, s := range r.schedule.Stages {
		hooks, err := r.prepareHooks(ctx, s.Phase, s.Members, &failedObjects{})
		if err != nil {
			return err
		}
		for _, h := range hooks {
			current.Put(inventory.Object{Ref: h.ref})
		}
	}
	for _, o := range inventory.NewSet(r.record.Hooks.Objects...).Minus(current) {
		if _, isObject := r.record.Objects.Get(o.Key); isObject { // it was a hook, and is an object of the service now
			r.record.Hooks = r.record.Hooks.Remove(o.Key)
			continue
		}
		if err := r.discard(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) logProblem(ctx context.Context, what, service string, err error) {
	e.params.Logger.WarnContext(ctx, what, slog.String("leat.service", service), slog.Any("error", err))
}
