// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/follow"
)

const (
	// defaultDeletionTimeout bounds deletions if the service's policy sets no timeout.
	defaultDeletionTimeout = 5 * time.Minute
	// maxDepartureTries is how often an object is read again after it changed between the read and
	// its deletion.
	maxDepartureTries = 10
)

// departure is how an object left a service.
type departure string

const (
	wasDeleted  departure = "pruned"
	wasDetached departure = "left the service and stays in the cluster"
	wasGone     departure = "was gone already"
	isOther     departure = "is another object of the same name"
)

func belongsTo(service string) departure { return departure("belongs to service " + service) }

// leave takes an object out of the inventory. It may be called concurrently. The caller stores the
// record together with other changes. That is safe in one direction only: an object that is still
// listed although it is gone costs the next run a request, while an existing object that is not
// listed would be lost.
func (r *run) leave(ctx context.Context, o inventory.Object, what departure) {
	r.Objects.Remove(o.Key)
	r.record.remove(o, what == wasDeleted || what == wasGone && o.UID != "")
	r.x.params.Ownership.Drop(o.Key, r.Name)
	r.log(ctx, slog.LevelInfo, "object left the inventory", slog.String("object", o.String()), slog.String("outcome", string(what)))
	r.Progress.Announce(o.Ref, string(what))
}

// foreignReason returns why the object with the name of a listed one is not that object, or "" if
// it is. An object with another UID is Leat's only if both its label and the API server's record of
// its managers are Leat's.
func (r *run) foreignReason(o inventory.Object, live *unstructured.Unstructured) departure {
	label := k8s.ServiceOf(live)
	switch {
	case o.UID == string(live.GetUID()) && label != r.Name && r.x.params.Ownership.Holds(label, o.Key):
		return belongsTo(label)
	case o.UID == string(live.GetUID()), label == r.Name && k8s.IsAppliedByLeat(live):
		return ""
	default:
		return isOther
	}
}

// withLiveObject calls do for the object in the cluster, if it is the listed one. It reads the
// object again after it was replaced.
func (r *run) withLiveObject(
	ctx context.Context, o inventory.Object, do func(context.Context, inventory.Object) error,
) error {
	for range maxDepartureTries {
		live, err := r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) || err == nil && r.foreignReason(o, live) != "" {
			return nil
		}
		if err != nil {
			return err
		}
		o.UID = string(live.GetUID())
		if err := do(ctx, o); !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
	}
	return reason.Errorf(reason.ApplyRejected, "is being replaced all the time; it will be tried again")
}

// deleteInBackground deletes an object that is not among the inventory's objects, such as a hook.
func deleteInBackground(cluster k8s.Writer) func(context.Context, inventory.Object) error {
	return func(ctx context.Context, o inventory.Object) error {
		_, err := cluster.Delete(ctx, o, k8s.DeleteOptions{Propagation: syncpolicy.DeleteBackground})
		return err
	}
}

// deleteAndWait deletes objects that are to be created again, and blocks until they are gone. It
// follows each object instead of relying on the service's watches: hooks are not among its objects,
// and a watch may never show that an object was gone if it is created again at once.
func (r *run) deleteAndWait(ctx context.Context, objects []inventory.Object, propagation syncpolicy.Propagation) error {
	var left []inventory.Object
	var refs []inventory.Ref
	for _, o := range objects {
		remains, err := r.cluster.Delete(ctx, o, k8s.DeleteOptions{Propagation: propagation})
		if err != nil && !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
		if remains != nil {
			left, refs = append(left, o), append(refs, o.Ref)
		}
	}
	if len(left) == 0 {
		return nil
	}
	timeout := cmp.Or(r.Service.Spec.Policy.Deletion.Timeout, defaultDeletionTimeout)
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errImpatient)
	defer cancel()
	seen := r.follow(ctx, refs)
	defer seen.Stop()
	err := r.await(waiting, func() bool {
		return !slices.ContainsFunc(left, func(o inventory.Object) bool { return mayExist(seen.At(o.Ref), o) })
	})
	if errors.Is(err, errImpatient) {
		return reason.Errorf(reason.ApplyRejected, "is to be deleted and created again, and is not gone after %v%s", timeout, heldBy(seen, refs))
	}
	return err
}

func mayExist(seen follow.Sight, o inventory.Object) bool {
	return !seen.Known || seen.Live != nil && string(seen.Live.GetUID()) == o.UID
}

// heldBy names a finalizer that keeps one of the objects in the cluster, for a message.
func heldBy(seen *follow.Follower, refs []inventory.Ref) string {
	for _, ref := range refs {
		if live := seen.At(ref).Live; live != nil && len(live.GetFinalizers()) > 0 {
			return fmt.Sprintf(": finalizer %s holds it", strings.Join(live.GetFinalizers(), ", "))
		}
	}
	return ""
}
