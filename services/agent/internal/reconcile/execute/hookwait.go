// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

// await blocks until hooks have ended, and records their results. A hook that failed, now or
// earlier in the same run, fails the run.
func (h *hookRunner) await(ctx context.Context, hooks []*hook) error {
	if len(hooks) == 0 {
		return nil
	}
	late := h.awaitEnds(ctx, hooks)
	if ctx.Err() != nil {
		return late
	}
	if err := h.save(ctx); err != nil { // before a deletion removes the evidence of the result
		return err
	}
	var failures []string
	for _, one := range hooks {
		if failure := h.r.record.Hooks.Ended[one.id()]; failure != "" {
			failures = append(failures, one.id()+" "+failure)
		}
	}
	if len(failures) > 0 {
		return reason.Errorf(reason.HookFailed, "%s", strings.Join(failures, "; "))
	}
	return late
}

// awaitEnds blocks until the running hooks have ended, and records their ends. The error names the
// slow ones.
func (h *hookRunner) awaitEnds(ctx context.Context, hooks []*hook) error {
	var refs []inventory.Ref
	for _, one := range hooks {
		if one.isRunning {
			refs = append(refs, one.ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	timeout := h.r.Service.Spec.HealthTimeoutOrDefault()
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	seen := h.r.follow(ctx, refs)
	defer seen.Stop()
	var left []string
	err := h.r.await(waiting, func() bool {
		left = h.recordEnds(hooks, seen)
		return len(left) == 0
	})
	if errors.Is(err, errImpatient) {
		return reason.Errorf(reason.HealthTimeout, "not ended within %v: %s", timeout, strings.Join(left, "; "))
	}
	return err
}

// recordEnds records the hooks that have ended, and describes the others. The last observed state
// of a hook counts even if it is gone: a hook that deletes itself at its end, or that another
// client cleans up, has ended anyway.
func (h *hookRunner) recordEnds(hooks []*hook, follower *follow.Follower) (left []string) {
	for _, one := range hooks {
		if !one.isRunning {
			continue
		}
		seen := follower.At(one.ref)
		state := endOf(seen.Last, h.r.x.params.Judge)
		switch {
		case !seen.Known:
			left = append(left, one.unseen(seen.Err))
		case seen.Last == nil || string(seen.Last.GetUID()) != one.uid:
			h.recordEnd(one, "was deleted before it ended")
		case state.hasEnded && state.hasFailed:
			h.recordEnd(one, "failed: "+state.message)
		case state.hasEnded: // even if it was deleted since
			h.recordEnd(one, "")
		case seen.Live == nil:
			h.recordEnd(one, "was deleted before it ended")
		case seen.Err != nil:
			left = append(left, one.unseen(seen.Err))
		default:
			left = append(left, strings.TrimSuffix(one.id()+": "+state.message, ": "))
		}
	}
	return left
}

// unseen describes a hook whose state is unknown.
func (h *hook) unseen(err error) string {
	if err == nil {
		return h.id()
	}
	return fmt.Sprintf("%s cannot be read: %v", h.id(), err)
}

// recordEnd records the result of a hook. An empty failure means that it succeeded.
func (h *hookRunner) recordEnd(one *hook, failure string) {
	one.isRunning = false
	h.r.record.Hooks = h.r.record.Hooks.End(one.id(), failure)
	message := "succeeded"
	if failure != "" {
		message = failure
	}
	h.r.Progress.Announce(one.ref, fmt.Sprintf("%s hook %s", one.phase, message))
}

// endPhase deletes the hooks of a phase that have ended and whose policy demands it, including
// hooks of a run that was interrupted before it could delete them.
func (h *hookRunner) endPhase(ctx context.Context) error {
	for _, one := range h.phase {
		failure, hasEnded := h.r.record.Hooks.Ended[one.id()]
		_, isListed := h.r.record.Hooks.Get(one.ref.Key)
		when := order.OnSuccess
		if failure != "" {
			when = order.OnFailure
		}
		if !hasEnded || !isListed || !one.Deletion.Has(when) {
			continue
		}
		if err := h.discard(ctx, inventory.Object{Ref: one.ref, UID: one.uid}); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a hook and its data. It does not wait until the hook is gone.
func (h *hookRunner) discard(ctx context.Context, o inventory.Object) error {
	if err := h.r.withLiveObject(ctx, o, deleteInBackground(h.r.cluster)); err != nil {
		return fmt.Errorf("delete hook %s: %w", o.Key, err)
	}
	h.r.record.Hooks = h.r.record.Hooks.Remove(o.Key)
	h.r.x.params.Ownership.Drop(o.Key, h.r.Name)
	return nil
}

// sweep deletes hooks of earlier runs that left the manifests, or have new names.
func (h *hookRunner) sweep(ctx context.Context) error {
	r := h.r
	if !r.IsChange || !r.Service.Spec.Prunes() || len(r.record.Hooks.Objects) == 0 {
		return nil
	}
	current := inventory.Set{}
	for _, s := range r.schedule.Stages {
		hooks, err := h.prepare(ctx, s.Phase, s.Members, &Failures{})
		if err != nil {
			return err
		}
		for _, one := range hooks {
			current.Put(inventory.Object{Ref: one.ref})
		}
	}
	for _, o := range inventory.NewSet(r.record.Hooks.Objects...).Minus(current) {
		if _, isObject := r.record.Objects.Get(o.Key); isObject { // the former hook is an object of the service now
			r.record.Hooks = r.record.Hooks.Remove(o.Key)
			continue
		}
		if err := h.discard(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
