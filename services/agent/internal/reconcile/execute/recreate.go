// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
)

// immutableObjects collects objects that must be deleted and created again. It is safe for
// concurrent use.
type immutableObjects struct {
	r *run

	mu      sync.Mutex
	objects []*unstructured.Unstructured
}

// collect returns err, the result of an apply, unless a manifest changes an immutable field and the
// object may be recreated.
func (c *immutableObjects) collect(o *unstructured.Unstructured, err error) error {
	immutable, ok := errors.AsType[*k8s.ImmutableError](err)
	if !ok {
		return err
	}
	if err := c.check(o, immutable); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = append(c.objects, o)
	return nil
}

// check returns why an object must not be deleted and created again, or nil.
func (c *immutableObjects) check(o *unstructured.Unstructured, immutable *k8s.ImmutableError) error {
	choice, err := order.Recreate(o)
	if err != nil {
		return err
	}
	fields := "what the manifest changes"
	if len(immutable.Fields) > 0 {
		fields = strings.Join(immutable.Fields, ", ")
	}
	switch {
	case inventory.IsPrecious(inventory.RefOf(o).Key):
		return reason.Errorf(reason.ApplyRejected, "%s; %s cannot be changed, and a %s is never recreated, because more than itself would go with it",
			immutable.Message, fields, o.GetKind())
	case !choice.Or(c.r.Service.Spec.Policy.Recreate):
		return reason.Errorf(reason.ApplyRejected, "%s; %s cannot be changed: to let Leat delete the object and create it again, give it the annotation %s: enabled, "+
			"or set recreate in the service's policy", immutable.Message, fields, order.LeatRecreate)
	}
	return nil
}

// delete deletes the objects, and returns the ones that are gone.
func (c *immutableObjects) delete(ctx context.Context, failures *Failures) ([]*unstructured.Unstructured, error) {
	var gone []*unstructured.Unstructured
	for _, o := range c.objects {
		ref := inventory.RefOf(o)
		err := c.deleteOne(ctx, ref)
		if isFatal(ctx, err) {
			return nil, err
		}
		if err != nil {
			failures.add(ref, err)
			continue
		}
		gone = append(gone, o)
	}
	return gone, nil
}

// deleteOne deletes an object of the service, and blocks until it is gone. It does not
// delete an object that Leat has not created.
func (c *immutableObjects) deleteOne(ctx context.Context, ref inventory.Ref) error {
	r := c.r
	live, err := r.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if k8s.ServiceOf(live) != r.Service.Name {
		return reason.Errorf(reason.ApplyRejected, "cannot be changed as the manifest wants, and is not recreated, because Leat has not made it; delete it yourself")
	}
	r.log(ctx, slog.LevelInfo, "object is recreated", slog.String("object", ref.String()))
	r.Progress.Announce(ref, "is recreated, because a field changed that cannot be changed")
	return r.deleteAndWait(ctx, []inventory.Object{{Ref: ref, UID: string(live.GetUID())}}, r.Service.Spec.Policy.Deletion.Propagation)
}
