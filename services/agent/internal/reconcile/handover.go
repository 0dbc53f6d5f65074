// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
)

// An object passes from one service to another in three steps, none of which leaves it without an inventory that knows it: the
// heir puts it into its own, applies it, which changes the label, and the first service drops it from its own when it sees that
// the heir's is stored. Who may take an object, and who has to leave it, follows from what the newest plan wants of both.

// claimOne makes sure that an object is the service's, or nobody's yet.
func (r *run) claimOne(ctx context.Context, ref inventory.Ref) error {
	owner := r.engine.ownership.Claim(ref.Key, r.service.Name)
	mine := owner == r.service.Name
	if !mine && (!r.engine.ownership.Yields(ctx, owner, ref.Key) || !r.engine.ownership.Reassign(ref.Key, owner, r.service.Name)) {
		return ownership.ClaimedBy(owner)
	}
	if !r.familiar(ref.Key) {
		if err := r.inspect(ctx, ref, owner); err != nil {
			r.engine.ownership.Unclaim(ref.Key, r.service.Name, owner)
			return err
		}
	}
	if !mine {
		r.inherit(owner, inventory.Object{})
	}
	return nil
}

// inspect looks at an object that the inventory does not know. One that another service lets go is put into the inventory under
// its UID: before the label changes, the UID is all that says whose it is. An object that bears the label of such a service, or of
// none that there is, and that Leat has never applied, is as good as one without.
//
// Of an object that Leat has applied, the label may be that of a service that is gone, too: it has passed on from that one and was
// not applied since. Then it is the one's that had the claim, if that one holds it, and else perhaps another agent's.
func (r *run) inspect(ctx context.Context, ref inventory.Ref, claimant string) error {
	live, err := r.cluster.Get(ctx, ref)
	if errors.Is(err, k8s.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	owner := live.GetLabels()[k8s.ServiceLabel]
	if owner == "" || owner == r.service.Name {
		return r.admit(ref.Key, live)
	}
	known := r.engine.ownership.Knows(owner)
	if known && !r.engine.ownership.Yields(ctx, owner, ref.Key) {
		return ownership.ClaimedBy(owner)
	}
	if !k8s.IsAppliedByLeat(live) {
		bare := live.DeepCopy()
		unstructured.RemoveNestedField(bare.Object, "metadata", "labels", k8s.ServiceLabel)
		return r.admit(ref.Key, bare)
	}
	if !known {
		if claimant == r.service.Name || !r.engine.ownership.HoldsUID(claimant, ref.Key, string(live.GetUID())) {
			return ownership.ClaimedBy(owner)
		}
		owner = claimant
	}
	r.inherit(owner, inventory.Object{Ref: ref, UID: string(live.GetUID())})
	return nil
}

// inherited is what a run takes over from other services.
type inherited struct {
	from    []string
	objects inventory.Set
}

// inherit notes what is taken over from whom. It is called concurrently.
func (r *run) inherit(from string, o inventory.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inherited.from = append(r.inherited.from, from)
	if o.UID != "" {
		r.inherited.objects.Put(o)
	}
}

// thank tells the services whose objects this one has taken over, now that its stored inventory holds them.
func (r *run) thank() {
	r.engine.ownership.Nudge(r.inherited.from)
	r.inherited = inherited{}
}

// concede takes out of the inventory what other services have taken over, also where the rest of the run fails.
func (r *run) concede(ctx context.Context) error {
	before := r.record.Objects.Len()
	for _, o := range r.record.Objects.Objects() {
		if owner := r.engine.ownership.Owner(o.Key); owner != r.unit.name && r.engine.ownership.Holds(owner, o.Key) {
			r.leave(ctx, o, departure("belongs to service "+owner))
		}
	}
	if r.record.Objects.Len() == before {
		return nil
	}
	return r.store(ctx)
}

// bequeath takes out of the inventory what another service holds now, leaves in it what another service of the plan is going to
// take, and returns the rest.
func (r *run) bequeath(ctx context.Context, gone []inventory.Object) (rest []inventory.Object, err error) {
	lent := map[inventory.Key]bool{}
	for _, o := range gone {
		owner := r.engine.ownership.Owner(o.Key)
		if owner != r.unit.name && r.engine.ownership.Holds(owner, o.Key) {
			r.leave(ctx, o, departure("belongs to service "+owner))
			continue
		}
		hasClaimant, err := r.engine.ownership.HasClaimant(ctx, r.unit.member, o.Key)
		switch {
		case err != nil:
			return nil, err
		case hasClaimant:
			lent[o.Key] = true
		default:
			r.engine.ownership.Reassign(o.Key, owner, r.unit.name) // another was going to take it, and no longer is
			rest = append(rest, o)
		}
	}
	r.unit.member.Lend(lent)
	return rest, nil
}

// release lets other services have what they want of one that the guard holds back. When nothing is left of it, nothing can be
// deleted by mistake, and it may go.
func (r *run) release(ctx context.Context) error {
	if _, err := r.bequeath(ctx, r.record.Objects.Objects()); err != nil {
		return err
	}
	if err := r.store(ctx); err != nil {
		return err
	}
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	if r.unit.order == decide.Hold && r.record.Objects.Len() == 0 {
		r.unit.order, r.unit.heldWhy = decide.Leave, ""
	}
	return nil
}

// Standing implements ownership.Service.
func (u *unit) Standing() ownership.Standing {
	isEmpty := u.objects.Len() == 0
	u.mu.Lock()
	defer u.mu.Unlock()
	s := ownership.Standing{
		Order: u.order, Newest: u.newest, IsBehind: u.behind(), Applied: u.stored.Applied, IsTouched: u.stored.Touched,
		IsEmpty: isEmpty, FirstNamed: u.born, Ordered: u.ordered, OrderedAt: u.orderedAt,
	}
	if u.order == decide.Follow && !s.IsBehind && !u.tried.SameInputs(u.desired.Inputs()) {
		s.Stale = u.running
	}
	return s
}

// Holds implements ownership.Service.
func (u *unit) Holds(k inventory.Key) (inventory.Object, bool) { return u.objects.Get(k) }

// Nudge implements ownership.Service: another service has taken over what this one lent, or lends it
// something.
func (u *unit) Nudge() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dirty, u.nudged = true, true
	u.retryAt = time.Time{}
	signal(u.wake)
}

// behind reports whether the service may not follow the newest plan yet. u.mu is held.
func (u *unit) behind() bool {
	return !u.desired.Inputs().SameInputs(u.newest.Inputs())
}
