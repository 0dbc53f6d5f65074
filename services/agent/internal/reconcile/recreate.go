// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
)

// stubborn collects objects that have to be recreated. It is safe for concurrent use.
type stubborn struct {
	mu      sync.Mutex
	objects []*unstructured.Unstructured
}

// spot wraps do: an object that can only be changed by making it anew is collected, if that was asked for, and counts as dealt with.
func (s *stubborn) spot(r *run, do func(context.Context, *unstructured.Unstructured) error) func(context.Context, *unstructured.Unstructured) error {
	return func(ctx context.Context, o *unstructured.Unstructured) error {
		err := do(ctx, o)
		immutable, ok := errors.AsType[*k8s.ImmutableError](err)
		if !ok {
			return err
		}
		if err := r.mayRecreate(o, immutable); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects = append(s.objects, o)
		return nil
	}
}

// mayRecreate returns nil when the object may be deleted to be made anew, and otherwise the problem that this leaves.
func (r *run) mayRecreate(o *unstructured.Unstructured, immutable *k8s.ImmutableError) error {
	choice, err := order.Recreate(o)
	if err != nil {
		return err
	}
	fields := "what the manifest changes"
	if len(immutable.Fields) > 0 {
		fields = strings.Join(immutable.Fields, ", ")
	}
	switch {
	case inventory.Precious(inventory.RefOf(o).Key):
		return reason.Errorf(reason.ApplyRejected, "%s; %s cannot be changed, and a %s is never recreated, because more than itself would go with it",
			immutable.Message, fields, o.GetKind())
	case !choice.Or(r.service.Spec.Policy.Recreate):
		return reason.Errorf(reason.ApplyRejected, "%s; %s cannot be changed: to have the object deleted and made anew, give it the annotation %s: enabled, "+
			"or set recreate in the service's policy", immutable.Message, fields, order.LeatRecreate)
	}
	return nil
}

// recreate deletes objects, and makes them anew once they are gone.
func (r *run) recreate(ctx context.Context, objects []*unstructured.Unstructured, failed *failedObjects) error {
	var ready []*unstructured.Unstructured
	for _, o := range objects {
		ref := inventory.RefOf(o)
		err := r.takeDown(ctx, ref)
		if fatal(ctx, err) {
			return err
		}
		if err != nil {
			failed.add(ref, err)
			continue
		}
		ready = append(ready, o)
	}
	return each(ctx, ready, inventory.RefOf, failed, func(ctx context.Context, o *unstructured.Unstructured) error {
		return r.write(ctx, o, r.sumOf(o), observe.Install) // a watch may not have seen yet that the old one is gone
	})
}

// takeDown deletes an object of the service and waits until it is gone. One that Leat has not made is left alone.
func (r *run) takeDown(ctx context.Context, ref inventory.Ref) error {
	live, err := r.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if live.GetLabels()[k8s.ServiceLabel] != r.service.Name {
		return reason.Errorf(reason.ApplyRejected, "cannot be changed as the manifest wants, and is not recreated, because Leat has not made it; delete it yourself")
	}
	r.engine.params.Logger.InfoContext(ctx, "object is recreated", slog.String("leat.service", r.service.Name), slog.String("object", ref.String()))
	r.tell(ref, "is recreated, because a field changed that cannot be changed")
	return r.vanish(ctx, []inventory.Object{{Ref: ref, UID: string(live.GetUID())}}, r.service.Spec.Policy.Deletion.Propagation)
}

// vanish deletes objects, and waits until they are gone.
func (r *run) vanish(ctx context.Context, objects []inventory.Object, propagation syncpolicy.Propagation) error {
	var left []inventory.Object
	for _, o := range objects {
		remains, err := r.cluster.Delete(ctx, o, k8s.DeleteOptions{Propagation: propagation})
		if err != nil && !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
		if remains != nil {
			left = append(left, o)
		}
	}
	if len(left) == 0 {
		return nil
	}
	timeout := cmp.Or(r.service.Spec.Policy.Deletion.Timeout, defaultGoneTimeout)
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	seen := r.follow(ctx, refsOf(left))
	defer seen.Stop()
	err := r.await(waiting, func() bool {
		return !slices.ContainsFunc(left, func(o inventory.Object) bool { return stands(seen.At(o.Ref), o) })
	})
	if errors.Is(err, errImpatient) {
		return reason.Errorf(reason.ApplyRejected, "is to be deleted and made anew, and is not gone after %v%s", timeout, heldBy(seen, left))
	}
	return err
}

func refsOf(objects []inventory.Object) []inventory.Ref {
	refs := make([]inventory.Ref, 0, len(objects))
	for _, o := range objects {
		refs = append(refs, o.Ref)
	}
	return refs
}

// stands reports whether an object is, or may be, still in the cluster.
func stands(seen follow.Sight, o inventory.Object) bool {
	return !seen.Known || seen.Live != nil && string(seen.Live.GetUID()) == o.UID
}

// heldBy names a finalizer that keeps one of the objects in the cluster, for a message.
func heldBy(follower *follow.Follower, objects []inventory.Object) string {
	for _, o := range objects {
		if live := follower.At(o.Ref).Live; live != nil && len(live.GetFinalizers()) > 0 {
			return fmt.Sprintf(": finalizer %s holds it", strings.Join(live.GetFinalizers(), ", "))
		}
	}
	return ""
}
