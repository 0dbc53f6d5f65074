// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// An object passes from one service to another in three steps, none of which leaves it without an inventory that knows it: the
// heir puts it into its own, applies it, which changes the label, and the first service drops it from its own when it sees that
// the heir's is stored. Who may take an object, and who has to leave it, follows from what the newest plan wants of both.

// claimOne makes sure that an object is the service's, or nobody's yet.
func (r *run) claimOne(ctx context.Context, ref inventory.Ref) error {
	owner := r.engine.claims.take(ref.Key, r.service.Name)
	mine := owner == r.service.Name
	if !mine && (!r.engine.yields(ctx, owner, ref.Key) || !r.engine.claims.move(ref.Key, owner, r.service.Name)) {
		return claimedBy(owner)
	}
	if !r.familiar(ref.Key) {
		if err := r.inspect(ctx, ref, owner); err != nil {
			r.engine.claims.giveBack(ref.Key, r.service.Name, owner)
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
	known := r.engine.knows(owner)
	if known && !r.engine.yields(ctx, owner, ref.Key) {
		return claimedBy(owner)
	}
	if !k8s.IsAppliedByLeat(live) {
		bare := live.DeepCopy()
		unstructured.RemoveNestedField(bare.Object, "metadata", "labels", k8s.ServiceLabel)
		return r.admit(ref.Key, bare)
	}
	if !known {
		if claimant == r.service.Name || !r.engine.holdsVery(claimant, ref.Key, string(live.GetUID())) {
			return claimedBy(owner)
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
	for _, name := range r.inherited.from {
		if u, err := r.engine.unit(name); err == nil {
			u.nudge()
		}
	}
	r.inherited = inherited{}
}

func claimedBy(owner string) error {
	return reason.Errorf(reason.ObjectClaimed, "belongs to service %q already; remove it from one of the two", owner)
}

// concede takes out of the inventory what other services have taken over, also where the rest of the run fails.
func (r *run) concede(ctx context.Context) error {
	before := r.record.Objects.Len()
	for _, o := range r.record.Objects.Objects() {
		if owner := r.engine.claims.owner(o.Key); owner != r.unit.name && r.engine.holds(owner, o.Key) {
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
		owner := r.engine.claims.owner(o.Key)
		if owner != r.unit.name && r.engine.holds(owner, o.Key) {
			r.leave(ctx, o, departure("belongs to service "+owner))
			continue
		}
		heir, err := r.engine.heir(ctx, r.unit, o.Key)
		switch {
		case err != nil:
			return nil, err
		case heir != nil:
			lent[o.Key] = true
		default:
			r.engine.claims.move(o.Key, owner, r.unit.name) // another was going to take it, and no longer is
			rest = append(rest, o)
		}
	}
	r.unit.lend(lent)
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

// lend notes which objects wait for another service.
func (u *unit) lend(lent map[inventory.Key]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lent = lent
}

// lends lists what waits for another service.
func (u *unit) lends() []inventory.Object {
	u.mu.Lock()
	defer u.mu.Unlock()
	var lent []inventory.Object
	for _, o := range u.objects.Listed().Objects() {
		if u.lent[o.Key] {
			lent = append(lent, o)
		}
	}
	return lent
}

// holds tells whether the stored inventory of a service has an object.
func (e *Engine) holds(service string, k inventory.Key) bool {
	_, held := e.held(service, k)
	return held
}

// holdsVery tells whether the stored inventory of a service has the very object with that UID.
func (e *Engine) holdsVery(service string, k inventory.Key, uid string) bool {
	o, held := e.held(service, k)
	return held && o.UID == uid
}

func (e *Engine) held(service string, k inventory.Key) (inventory.Object, bool) {
	u, err := e.unit(service)
	if err != nil {
		return inventory.Object{}, false
	}
	return u.objects.Get(k)
}

// knows tells whether there is such a service, be it that it goes.
func (e *Engine) knows(service string) bool {
	_, err := e.unit(service)
	return err == nil
}

// yields tells whether a service lets an object go.
func (e *Engine) yields(ctx context.Context, service string, k inventory.Key) bool {
	e.awaitOrders()
	u, err := e.unit(service)
	if err != nil || !u.quiesce(ctx) {
		return false
	}
	u.mu.Lock()
	lent := u.lent[k]
	u.mu.Unlock()
	if lent {
		return true
	}
	wanted, certain := u.wants(ctx, k)
	return certain && !wanted
}

// awaitOrders waits while a plan is being handed out: of two services that it concerns, one must not act on the new plan and
// take the other to be still under the old.
func (e *Engine) awaitOrders() {
	e.adopting.RLock()
	defer e.adopting.RUnlock()
}

// quiesce waits for the end of a run under orders that are no longer the newest, which have been told to end already.
func (u *unit) quiesce(ctx context.Context) bool {
	u.mu.Lock()
	running, stale := u.running, u.order == decide.Follow && !u.behind() && !u.tried.SameInputs(u.desired.Inputs())
	u.mu.Unlock()
	if running == nil || !stale {
		return true
	}
	select {
	case <-running:
		return true
	case <-ctx.Done():
		return false
	}
}

// heir is another service of the plan that wants an object which its service does without; nil when there is none. It fails while
// that cannot be told: of a service that came no earlier than the object left, and has never been applied, nobody knows yet.
// After a while such a service is taken for one that does not want it.
func (e *Engine) heir(ctx context.Context, leaving *unit, k inventory.Key) (*unit, error) {
	e.awaitOrders()
	for _, u := range e.all() {
		if u == leaving {
			continue
		}
		wanted, certain := u.wants(ctx, k)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case wanted:
			u.nudge()
			return u, nil
		case !certain && u.fresh() && leaving.doubts(u, time.Now()):
			return nil, reason.Errorf(reason.ObjectClaimed, "service %q came with the same plan and cannot be rendered yet; it may want what is to be deleted", u.name)
		}
	}
	return nil, nil
}

// fresh tells a service that has never been applied.
func (u *unit) fresh() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order == decide.Follow && u.stored.Applied.At.IsZero() && u.objects.Len() == 0
}

// doubts tells whether to wait for a service whose wishes are not known.
func (u *unit) doubts(other *unit, now time.Time) bool {
	other.mu.Lock()
	born := other.born
	other.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	return born >= u.ordered && now.Sub(u.orderedAt) < defaultGoneTimeout
}

// wishes are the objects that a service wants under certain inputs.
type wishes struct {
	inputs inventory.Applied
	keys   map[inventory.Key]bool
	err    error // of rendering
	at     time.Time
}

// imagineAgain is how soon a service that could not be rendered may be rendered again, only to know what it wants.
const imagineAgain = time.Second

func (w *wishes) current(s plan.Service, now time.Time) bool {
	return w != nil && w.inputs.SameInputs(s.Inputs()) && (w.err == nil || now.Sub(w.at) < imagineAgain)
}

// behind tells a service that may not be brought to what the plan says yet. u.mu is held.
func (u *unit) behind() bool {
	return !u.desired.Inputs().SameInputs(u.newest.Inputs())
}

// wants tells whether the newest plan has the service hold an object, and whether that can be told. A service that is paused, or
// may not follow the plan yet, keeps what it has besides.
func (u *unit) wants(ctx context.Context, k inventory.Key) (wanted, certain bool) {
	u.mu.Lock()
	_, held := u.objects.Get(k)
	held = held && !u.lent[k]
	order, desired, known, applied := u.order, u.newest, u.wishes, u.stored.Applied
	current := !u.stored.Touched && u.newest.Inputs().SameInputs(applied)
	still := u.behind() || u.newest.Spec.Paused
	u.mu.Unlock()
	switch {
	case order == decide.Leave || order == decide.Hold:
		return false, true
	case order == decide.Wait || current || desired.Spec.DryRun:
		return held, true
	case len(desired.Bundles) == 0:
		return held, !applied.At.IsZero()
	case !known.current(desired, time.Now()):
		known = u.engine.imagine(ctx, desired, applied)
		u.mu.Lock()
		u.wishes = known
		u.mu.Unlock()
	}
	return known.keys[k] || held && (known.err != nil || still), known.err == nil
}

// imagine finds out which objects a service wants, whether they are applied or not.
func (e *Engine) imagine(ctx context.Context, s plan.Service, applied inventory.Applied) *wishes {
	w := &wishes{inputs: s.Inputs(), keys: map[inventory.Key]bool{}, at: time.Now()}
	all, err := e.renderer().Render(ctx, s, applied)
	if err != nil {
		w.err = err
		return w
	}
	for _, o := range all.Objects {
		key := inventory.RefOf(o).Key
		namespaced, err := e.params.Cluster.Namespaced(ctx, o.GroupVersionKind())
		if err != nil || !namespaced { // of a kind that does not exist yet both can be
			w.keys[inventory.Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] = true
		}
		if key.Namespace == "" {
			key.Namespace = s.Spec.NamespaceOrDefault()
		}
		w.keys[key] = true
	}
	return w
}

// nudge has the unit run again: another service has taken over what this one lent, or lends it something.
func (u *unit) nudge() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dirty, u.nudged = true, true
	u.retryAt = time.Time{}
	signal(u.wake)
}
