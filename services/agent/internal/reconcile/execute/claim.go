// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fields"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
)

// Package ownership describes the steps in which an object moves from one service to another.

// claimer claims objects for the run's service. It is safe for concurrent use.
type claimer struct {
	r *run

	mu      sync.Mutex
	foreign map[inventory.Key]*unstructured.Unstructured // found in the cluster, and not applied yet
}

func newClaimer(r *run) *claimer {
	return &claimer{r: r, foreign: map[inventory.Key]*unstructured.Unstructured{}}
}

// claim ensures that an object is the service's, or is still free.
func (c *claimer) claim(ctx context.Context, ref inventory.Ref) error {
	services := c.r.x.params.Ownership
	owner := services.Claim(ref.Key, c.r.Name)
	isMine := owner == c.r.Name
	if !isMine && (!services.Yields(ctx, owner, ref.Key) || !services.Reassign(ref.Key, owner, c.r.Name)) {
		return ownership.ClaimedBy(owner)
	}
	if !c.isKnownByUID(ref.Key) {
		if err := c.inspect(ctx, ref, owner); err != nil {
			services.Unclaim(ref.Key, c.r.Name, owner)
			return err
		}
	}
	if !isMine {
		c.r.record.inherit(owner, inventory.Object{})
	}
	return nil
}

// isKnownByUID reports whether the object in the cluster, if there is one, is the listed one.
// Another client may have created a deleted object again, which matters if nothing may be adopted.
func (c *claimer) isKnownByUID(k inventory.Key) bool {
	known, isListed := c.r.record.get(k)
	if !isListed || known.UID == "" || c.r.Service.Spec.Policy.Adoption != syncpolicy.AdoptNever {
		return isListed && known.UID != ""
	}
	return !c.r.Objects.IsKnownDeleted(k)
}

// inspect reads an object that the inventory does not list. An object that another service yields
// is listed under its UID: before the label changes, only the UID shows its owner. An object that
// Leat has never applied counts as unlabelled if its label names such a service, or a missing one.
//
// If Leat has applied the object, its label may name a service that is gone: the object was handed
// over by that service and has not been applied since. Then it belongs to the claimant if that
// lists it, and otherwise perhaps to another agent.
func (c *claimer) inspect(ctx context.Context, ref inventory.Ref, claimant string) error {
	live, err := c.r.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	services, owner := c.r.x.params.Ownership, k8s.ServiceOf(live)
	if owner == "" || owner == c.r.Name {
		return c.admit(ref.Key, live)
	}
	isKnown := services.Knows(owner)
	if isKnown && !services.Yields(ctx, owner, ref.Key) {
		return ownership.ClaimedBy(owner)
	}
	if !k8s.IsAppliedByLeat(live) {
		bare := live.DeepCopy()
		k8s.Unmark(bare)
		return c.admit(ref.Key, bare)
	}
	if !isKnown {
		if claimant == c.r.Name || !services.HoldsUID(claimant, ref.Key, string(live.GetUID())) {
			return ownership.ClaimedBy(owner)
		}
		owner = claimant
	}
	c.r.record.inherit(owner, inventory.Object{Ref: ref, UID: string(live.GetUID())})
	return nil
}

// admit decides whether this service may take over an existing object that belongs to no other
// service.
func (c *claimer) admit(k inventory.Key, live *unstructured.Unstructured) error {
	if err := c.checkAdoption(live); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.foreign[k] = live
	return nil
}

// checkAdoption returns why the service must not take over an existing object, or nil.
func (c *claimer) checkAdoption(live *unstructured.Unstructured) error {
	isUnlabelled := k8s.ServiceOf(live) == ""
	if isUnlabelled && c.r.Service.Spec.Policy.Adoption == syncpolicy.AdoptNever && !fields.Touched(live) {
		return reason.Errorf(reason.ObjectUnmanaged, "exists, and Leat has not made it; remove it, or allow the service's policy to adopt it")
	}
	return nil
}

// takeForeign returns the object that was admitted under that key, once.
func (c *claimer) takeForeign(k inventory.Key) *unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.foreign[k]
	delete(c.foreign, k)
	return live
}
