// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// defaultGoneTimeout is how long objects may take to go where the service's owner says nothing else.
const defaultGoneTimeout = 5 * time.Minute

// partTries is how often an object is read again that changed between the look at it and its deletion.
const partTries = 10

// leaving collects objects that are on their way out. It is safe for concurrent use.
type leaving struct {
	mu      sync.Mutex
	objects []inventory.Object
}

func (l *leaving) add(o inventory.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects = append(l.objects, o)
}

// partOne lets one object go. It looks at the object first, and what it does then it does to the very object it has seen, so
// that whoever marks an object to save it is in time until the last moment.
func (r *run) partOne(ctx context.Context, o inventory.Object, how parting, leaving *leaving) error {
	for range partTries {
		live, err := r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) {
			r.leave(ctx, o, wasGone)
			return nil
		}
		if err != nil {
			return err
		}
		if owner := r.stranger(o, live); owner != "" {
			r.leave(ctx, o, owner)
			return nil
		}
		o.UID = string(live.GetUID())
		if err := r.act(ctx, o, live, how, leaving); !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
	}
	return reason.Errorf(reason.ApplyRejected, "is being changed all the time; it will be tried again")
}

// forgetMissing takes those of the objects out of the inventory that the watches have seen go, or that were never made. It may have
// been this agent that has deleted them, in a run that has broken off, so they count for the guard. What was taken over and never
// applied still has another's label, under which nobody tells this service that it went.
func (r *run) forgetMissing(ctx context.Context, objects []inventory.Object) error {
	lingering := inventory.NewSet(r.unit.objects.Remaining(objects)...)
	for _, o := range objects {
		if o.UID == "" || !r.unit.objects.IsSeen(o.Key) {
			lingering.Remove(o.Key)
		}
	}
	failed := &failedObjects{verb: "prune"}
	err := each(ctx, inventory.NewSet(objects...).Minus(lingering), refOf, failed, func(ctx context.Context, o inventory.Object) error {
		live, err := r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) || err == nil && r.stranger(o, live) == isOther {
			r.leave(ctx, o, wasGone)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return failed.orNil()
}

// erase deletes an object in the background that is not one of an inventory's objects, such as a hook.
func erase(cluster k8s.API) func(context.Context, inventory.Object) error {
	return func(ctx context.Context, o inventory.Object) error {
		_, err := cluster.Delete(ctx, o, k8s.DeleteOptions{Propagation: syncpolicy.DeleteBackground})
		return err
	}
}

// certain calls act for the very object that is meant. One that only has its name is left alone.
func (r *run) certain(ctx context.Context, o inventory.Object, act func(context.Context, inventory.Object) error) error {
	for range partTries {
		live, err := r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) || err == nil && r.stranger(o, live) != "" {
			return nil
		}
		if err != nil {
			return err
		}
		o.UID = string(live.GetUID())
		if err := act(ctx, o); !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
	}
	return reason.Errorf(reason.ApplyRejected, "is being replaced all the time; it will be tried again")
}

// stranger tells why an object that has the name of one in the inventory is not that one; empty when it is. An object whose UID
// is not the recorded one is Leat's own only if it says so twice: in its label, and in the API server's record of who applied it.
func (r *run) stranger(o inventory.Object, live *unstructured.Unstructured) departure {
	label := live.GetLabels()[k8s.ServiceLabel]
	if o.UID == string(live.GetUID()) {
		if label != r.unit.name && r.engine.ownership.Holds(label, o.Key) {
			return departure("belongs to service " + label)
		}
		return ""
	}
	if label == r.unit.name && k8s.IsAppliedByLeat(live) {
		return ""
	}
	return isOther
}

// act deletes the object, or detaches it where that is the wish of anybody who has a say.
func (r *run) act(ctx context.Context, o inventory.Object, live *unstructured.Unstructured, how parting, leaving *leaving) error {
	wish := o.Wish.And(inventory.WishOf(live.GetAnnotations()))
	switch {
	case how.detach || !inventory.Deletable(o.Key, wish, how.deletion):
		return r.detachOne(ctx, o)
	case live.GetDeletionTimestamp() != nil: // a deletion that was begun before
		r.expect(o, leaving)
		return nil
	case o.Contains():
		if err := r.vacant(ctx, o); err != nil {
			return err
		}
	}
	return r.deleteOne(ctx, o, live, how.deletion, leaving)
}

func (r *run) detachOne(ctx context.Context, o inventory.Object) error {
	if err := r.cluster.Release(ctx, o); err != nil {
		return err
	}
	r.leave(ctx, o, detached)
	return nil
}

// deleteOne does not wait for the end of an object without the label, which no watch would see.
func (r *run) deleteOne(
	ctx context.Context, o inventory.Object, live *unstructured.Unstructured, how syncpolicy.Deletion, leaving *leaving,
) error {
	options := k8s.DeleteOptions{Propagation: how.Propagation, ResourceVersion: live.GetResourceVersion()}
	r.depart(o, true) // whatever the answer: it may get lost
	remains, err := r.cluster.Delete(ctx, o, options)
	switch {
	case errors.Is(err, k8s.ErrReplaced):
		r.depart(o, false)
		return err
	case err != nil:
		return err
	case remains == nil || remains.GetLabels()[k8s.ServiceLabel] != r.unit.name:
		r.leave(ctx, o, pruned)
	default:
		r.expect(o, leaving)
	}
	return nil
}

// depart notes whether an object's deletion has begun, or is over.
func (r *run) depart(o inventory.Object, going bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if going {
		r.going.Put(o)
	} else {
		r.going.Remove(o.Key)
	}
}

// vacant makes sure that nothing goes with a namespace or a definition that its deletion is not about: its service's own objects
// went before, and all that is left is somebody else's.
func (r *run) vacant(ctx context.Context, o inventory.Object) error {
	inside, err := r.cluster.Contents(ctx, o.Ref)
	if err != nil || len(inside) == 0 {
		return err
	}
	return reason.Errorf(reason.ApplyRejected, "still holds what the service does not delete (%s); it is deleted when that is gone", describe(inside))
}

// expect notes that an object is on its way, under the UID by which its end will be observed.
func (r *run) expect(o inventory.Object, leaving *leaving) {
	r.mu.Lock()
	r.record.Objects.Put(o)
	r.going.Put(o)
	r.mu.Unlock()
	r.unit.objects.Put(o)
	leaving.add(o)
}

// awaitGone waits until the watches have seen all of the objects go. Those that have not gone in time are failures.
func (r *run) awaitGone(ctx context.Context, objects []inventory.Object, how syncpolicy.Deletion, failed *failedObjects) error {
	timeout := how.Timeout
	if timeout <= 0 {
		timeout = defaultGoneTimeout
	}
	patient, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.await(patient, func() bool { return len(r.unit.objects.Remaining(objects)) == 0 })
	if ctx.Err() != nil || err != nil && patient.Err() == nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	lingering := r.unit.objects.Remaining(objects)
	for _, o := range inventory.NewSet(objects...).Minus(inventory.NewSet(lingering...)) {
		r.leave(ctx, o, pruned)
	}
	return each(ctx, lingering, refOf, failed, func(ctx context.Context, o inventory.Object) error { return r.stuck(ctx, o, timeout) })
}

// stuck says what keeps an object from going. The watches may also have missed its end.
func (r *run) stuck(ctx context.Context, o inventory.Object, timeout time.Duration) error {
	live, err := r.cluster.Get(ctx, o.Ref)
	if errors.Is(err, k8s.ErrNotFound) || err == nil && string(live.GetUID()) != o.UID {
		r.leave(ctx, o, pruned)
		return nil
	}
	if err != nil {
		return err
	}
	holders := "nothing that it names keeps it"
	if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
		holders = "its finalizers keep it: " + strings.Join(finalizers, ", ")
	}
	return reason.Errorf(reason.DeadlineExceeded, "is being deleted and has not gone within %v; %s", timeout, holders)
}

// departure is what became of an object that left a service.
type departure string

const (
	pruned   departure = "pruned"
	detached departure = "left the service and stays in the cluster"
	wasGone  departure = "was gone already"
	isOther  departure = "is another object of the same name"
)

// leave takes an object out of the inventory. It is called concurrently.
func (r *run) leave(ctx context.Context, o inventory.Object, what departure) {
	r.unit.objects.Remove(o.Key)
	r.mu.Lock()
	r.record.Objects.Remove(o.Key)
	if what == pruned || what == wasGone && o.UID != "" {
		r.going.Put(o)
		if !o.Agreed && !o.Counted {
			r.record.Pruned++
		}
	}
	r.mu.Unlock()

	r.engine.ownership.Drop(o.Key, r.unit.name)
	r.engine.params.Logger.InfoContext(ctx, "object left the inventory", slog.String("leat.service", r.unit.name),
		slog.String("object", o.String()), slog.String("outcome", string(what)))
	r.tell(o.Ref, string(what))
}
