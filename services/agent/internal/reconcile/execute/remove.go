// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// removal removes objects from a service.
//
// An object is deleted only if it is the listed one. Its UID decides. If the UID differs, both the
// label and the API server's record of managers must be Leat's. The deletion names the UID and the
// version that was read. If another client marks the object to keep it, or replaces it, in between,
// the deletion fails and the object is read again.
//
// The end of an object is observed and not assumed, because finalizers may keep it for long. It
// stays listed under the UID by which watches will report its end, so that a later run can continue
// an interrupted one. Namespaces and definitions go last, and only when they contain nothing that
// belongs to others.
type removal struct {
	r *run

	deletion syncpolicy.Deletion
	detaches bool // the objects stay in the cluster
	// leavesAgent has what the running agent is made of stay, too, because no run of the service follows that could
	// report it.
	leavesAgent bool

	mu       sync.Mutex
	deleting []inventory.Object // objects whose end is to be observed
}

// newRemoval returns a removal by a policy. If it detaches, the objects stay in the cluster.
func newRemoval(r *run, deletion syncpolicy.Deletion, detaches bool) *removal {
	return &removal{r: r, deletion: deletion, detaches: detaches}
}

// removeAll removes objects, the last wave first. A wave must be gone before the next one is
// deleted. A wave with failures is the last.
func (m *removal) removeAll(ctx context.Context, gone []inventory.Object) error {
	for _, wave := range inventory.Reversed(gone) {
		if err := m.removeWave(ctx, wave); err != nil {
			return err
		}
		m.r.Turn.Renew()
	}
	return nil
}

func (m *removal) removeWave(ctx context.Context, groups [][]inventory.Object) error {
	failures := &Failures{verb: "prune"}
	m.deleting = nil
	for _, group := range groups {
		if err := each(ctx, group, refOf, failures, m.removeOne); err != nil {
			return err
		}
	}
	if err := m.awaitGone(ctx, failures); err != nil {
		return err
	}
	return failures.orNil()
}

// removeOne removes one object. It reads the object first, and deletes exactly the version that it
// has read, so that a mark that protects the object counts until the last moment.
func (m *removal) removeOne(ctx context.Context, o inventory.Object) error {
	for range maxDepartureTries {
		live, err := m.r.cluster.Get(ctx, o.Ref)
		if errors.Is(err, k8s.ErrNotFound) {
			m.r.leave(ctx, o, wasGone)
			return nil
		}
		if err != nil {
			return err
		}
		if why := m.r.foreignReason(o, live); why != "" {
			m.r.leave(ctx, o, why)
			return nil
		}
		o.UID = string(live.GetUID())
		if err := m.removeLive(ctx, o, live); !errors.Is(err, k8s.ErrReplaced) {
			return err
		}
	}
	return reason.Errorf(reason.ApplyRejected, "is being changed all the time; it will be tried again")
}

// removeLive deletes the object, or detaches it if the policy or an annotation demands it.
func (m *removal) removeLive(ctx context.Context, o inventory.Object, live *unstructured.Unstructured) error {
	wish := o.Wish.And(inventory.WishOf(live.GetAnnotations()))
	switch {
	case m.detaches || !inventory.Deletable(o.Key, wish, m.deletion):
		return m.detach(ctx, o)
	case live.GetDeletionTimestamp() != nil: // an earlier deletion is still active
		m.trackDeletion(o)
		return nil
	case o.IsContainer():
		if err := m.ensureEmpty(ctx, o); err != nil {
			return err
		}
	}
	err := m.delete(ctx, o, live)
	if m.leavesAgent && isOfAgent(err) {
		return m.detach(ctx, o)
	}
	return err
}

func (m *removal) detach(ctx context.Context, o inventory.Object) error {
	if err := m.r.cluster.Release(ctx, o); err != nil {
		return err
	}
	m.r.leave(ctx, o, wasDetached)
	return nil
}

// delete deletes the object in the version that was read. It does not wait for the end of an object
// without the service's label, because no watch would report that end.
func (m *removal) delete(ctx context.Context, o inventory.Object, live *unstructured.Unstructured) error {
	options := k8s.DeleteOptions{Propagation: m.deletion.Propagation, ResourceVersion: live.GetResourceVersion()}
	m.r.record.beginDeparture(o)
	remains, err := m.r.cluster.Delete(ctx, o, options)
	switch {
	case errors.Is(err, k8s.ErrReplaced) || isOfAgent(err):
		m.r.record.cancelDeparture(o.Key)
		return err
	case err != nil:
		return err
	case remains == nil || k8s.ServiceOf(remains) != m.r.Name:
		m.r.leave(ctx, o, wasDeleted)
	default:
		m.trackDeletion(o)
	}
	return nil
}

// ensureEmpty ensures that nothing else is deleted together with a namespace or a definition. The
// service's own objects were deleted before, so the remaining ones belong to others.
func (m *removal) ensureEmpty(ctx context.Context, o inventory.Object) error {
	inside, err := m.r.cluster.Contents(ctx, o.Ref)
	if err != nil || len(inside) == 0 {
		return err
	}
	return reason.Errorf(reason.ApplyRejected, "still holds what the service does not delete (%s); it is deleted when that is gone",
		inventory.Describe(inside))
}

// trackDeletion lists the object under the UID by which its end will be observed.
func (m *removal) trackDeletion(o inventory.Object) {
	m.r.record.markDeleting(o)
	m.r.Objects.Put(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleting = append(m.deleting, o)
}

// awaitGone blocks until watches have shown the end of all objects that are being deleted. Objects
// that take too long are failures.
func (m *removal) awaitGone(ctx context.Context, failures *Failures) error {
	timeout := m.deletion.Timeout
	if timeout <= 0 {
		timeout = defaultDeletionTimeout
	}
	patient, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := m.r.await(patient, func() bool { return len(m.r.Objects.Remaining(m.deleting)) == 0 })
	if ctx.Err() != nil || err != nil && patient.Err() == nil {
		return cmp.Or(err, context.Cause(ctx))
	}
	remaining := m.r.Objects.Remaining(m.deleting)
	for _, o := range inventory.NewSet(m.deleting...).Minus(inventory.NewSet(remaining...)) {
		m.r.leave(ctx, o, wasDeleted)
	}
	return each(ctx, remaining, refOf, failures, func(ctx context.Context, o inventory.Object) error {
		return m.explainDelay(ctx, o, timeout)
	})
}

// explainDelay returns what keeps an object in the cluster, or nil if watches have missed its end.
func (m *removal) explainDelay(ctx context.Context, o inventory.Object, timeout time.Duration) error {
	live, err := m.r.cluster.Get(ctx, o.Ref)
	if errors.Is(err, k8s.ErrNotFound) || err == nil && string(live.GetUID()) != o.UID {
		m.r.leave(ctx, o, wasDeleted)
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
