// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which service an object belongs to, and who takes it over.
//
// An object passes from one service to another in three steps. In none of them is there no inventory
// that lists it: the new owner puts it into its own inventory, then applies it, which changes the
// label, and the previous owner drops it from its inventory when it sees that the new owner's is
// stored. Which service may take an object, and which must leave it, follows from what the newest plan
// wants of both.
//
// Three facts decide, in this order:
//   - claims: the first service of this process to take an object has it. They decide races that the
//     label on the object, which is read before it is written, cannot decide;
//   - inventories: a service holds the objects of its stored inventory;
//   - the newest plan: a service that the plan wants without an object yields it.
//
// While a plan is handed out, of two services that it concerns one would act on the new plan and take
// the other to be still under the old. So questions about services wait for the end of the hand-out.
//
// Locks: Registry.handOut before a unit's lock before Registry.mu or Member.mu. The last two are
// never held while anything else is called.
package ownership

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// patience is how long an object that its service does without waits for a service whose wishes are
// unknown.
const patience = 5 * time.Minute

// Service is a service among others, as its unit knows it. Methods may be called concurrently.
type Service interface {
	// Standing returns where the service stands.
	Standing() Standing
	// Holds returns an object of the service's stored inventory.
	Holds(k inventory.Key) (inventory.Object, bool)
	// Nudge has the service run again.
	Nudge()
}

// Standing is where a service stands between the cluster and the plan. It is a value.
type Standing struct {
	// Order is what the newest plan wants of the service.
	Order decide.Order
	// Newest is the newest plan's entry. IsBehind means that the service may not follow it yet.
	Newest   plan.Service
	IsBehind bool
	// Applied is what was last applied completely, IsTouched whether a later run has begun to change it.
	Applied   inventory.Applied
	IsTouched bool
	// IsEmpty means that the stored inventory lists nothing.
	IsEmpty bool
	// FirstNamed is the generation of the plan that named the service first. Ordered is the generation
	// that brought its latest order, OrderedAt the time.
	FirstNamed, Ordered int64
	OrderedAt           time.Time
	// Stale is closed when a run under earlier orders has ended. Nil: there is no such run.
	Stale <-chan struct{}
}

// Registry knows the services of one cluster. It is safe for concurrent use.
type Registry struct {
	renderer manifest.Renderer
	cluster  k8s.Reader

	handOut sync.RWMutex // locked while a plan is handed out

	mu      sync.Mutex
	claims  claims
	members map[string]*Member
}

// New returns an empty registry. It renders manifests to learn which objects a service wants.
func New(renderer manifest.Renderer, cluster k8s.Reader) *Registry {
	return &Registry{renderer: renderer, cluster: cluster, members: map[string]*Member{}}
}

// Member is one service of a registry. It is safe for concurrent use.
type Member struct {
	Name    string
	service Service

	mu     sync.Mutex
	lent   lent
	wanted *wantedKeys // of the newest plan, if somebody asked
}

// lent are the objects that a service does without and keeps for another one to take over. They count
// until another plan gives the service another order.
type lent struct {
	ordered int64
	keys    map[inventory.Key]bool
}

// Join adds a service.
func (g *Registry) Join(name string, s Service) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := &Member{Name: name, service: s}
	g.members[name] = m
	return m
}

// Leave removes a service with all its claims, also those of objects that it never created.
func (g *Registry) Leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, name)
	g.claims.dropAll(name)
}

// HandOut calls give, which gives every service its order under a new plan.
func (g *Registry) HandOut(give func()) {
	g.handOut.Lock()
	defer g.handOut.Unlock()
	give()
}

// awaitOrders blocks while a plan is handed out.
func (g *Registry) awaitOrders() {
	g.handOut.RLock()
	defer g.handOut.RUnlock()
}

func (g *Registry) member(name string) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[name]
}

// sorted returns all members by name.
func (g *Registry) sorted() []*Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Member, 0, len(g.members))
	for _, m := range g.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Claim gives an object to a service unless another one has it, and returns its owner.
func (g *Registry) Claim(k inventory.Key, service string) (owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claims.take(k, service)
}

// Reassign gives an object from one service, or from none (""), to another, and reports whether the
// first one had it.
func (g *Registry) Reassign(k inventory.Key, from, to string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claims.move(k, from, to)
}

// Unclaim undoes a Claim or Reassign of an object that service has: its previous owner has it again, or
// nobody if that is the same.
func (g *Registry) Unclaim(k inventory.Key, service, previous string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if previous == service || !g.claims.move(k, service, previous) {
		g.claims.drop(k, service)
	}
}

// Drop removes a service's claim of an object, if it has it.
func (g *Registry) Drop(k inventory.Key, service string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claims.drop(k, service)
}

// Owner returns the service that has claimed an object, or "".
func (g *Registry) Owner(k inventory.Key) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claims.owner(k)
}

// Holds reports whether the stored inventory of a service lists an object.
func (g *Registry) Holds(service string, k inventory.Key) bool {
	m := g.member(service)
	if m == nil {
		return false
	}
	_, isHeld := m.service.Holds(k)
	return isHeld
}

// HoldsUID reports whether the stored inventory of a service lists the object with that UID.
func (g *Registry) HoldsUID(service string, k inventory.Key, uid string) bool {
	m := g.member(service)
	if m == nil {
		return false
	}
	o, isHeld := m.service.Holds(k)
	return isHeld && o.UID == uid
}

// Knows reports whether there is such a service. It may be one that is being removed.
func (g *Registry) Knows(service string) bool {
	return g.member(service) != nil
}

// Nudge has services run again.
func (g *Registry) Nudge(services []string) {
	for _, name := range services {
		if m := g.member(name); m != nil {
			m.service.Nudge()
		}
	}
}

// Yields reports whether a service lets another one have an object. It may render the service's
// manifests, and waits for the end of a run under the service's earlier orders.
func (g *Registry) Yields(ctx context.Context, service string, k inventory.Key) bool {
	g.awaitOrders()
	m := g.member(service)
	if m == nil || !awaitStale(ctx, m.service.Standing().Stale) {
		return false
	}
	if m.isLent(k, m.service.Standing()) {
		return true
	}
	isWanted, isCertain := g.wants(ctx, m, k)
	return isCertain && !isWanted
}

// awaitStale blocks until a run under earlier orders, which has been told to end, has ended. It reports
// false if ctx is done before.
func awaitStale(ctx context.Context, stale <-chan struct{}) bool {
	if stale == nil {
		return true
	}
	select {
	case <-stale:
		return true
	case <-ctx.Done():
		return false
	}
}

// HasClaimant reports whether another service of the plan wants an object that its service does
// without, and nudges that service. It fails while that is unknown: a service that was named no
// earlier than the object left, and that was never applied, may want it. After some minutes such a
// service is taken not to want the object.
func (g *Registry) HasClaimant(ctx context.Context, leaving *Member, k inventory.Key) (bool, error) {
	g.awaitOrders()
	for _, m := range g.sorted() {
		if m == leaving {
			continue
		}
		isWanted, isCertain := g.wants(ctx, m, k)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case isWanted:
			m.service.Nudge()
			return true, nil
		case !isCertain && mayWant(m.service.Standing(), leaving.service.Standing(), time.Now()):
			return false, reason.Errorf(reason.ObjectClaimed,
				"service %q came with the same plan and cannot be rendered yet; it may want what is to be deleted", m.Name)
		}
	}
	return false, nil
}

// mayWant reports whether an object of the leaving service must wait for a service whose wishes are
// unknown.
func mayWant(other, leaving Standing, now time.Time) bool {
	isNew := other.Order == decide.Follow && other.Applied.At.IsZero() && other.IsEmpty
	return isNew && other.FirstNamed >= leaving.Ordered && now.Sub(leaving.OrderedAt) < patience
}

// Lend records the objects that the service keeps for others to take over, under its current order.
func (m *Member) Lend(keys map[inventory.Key]bool) {
	ordered := m.service.Standing().Ordered
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lent = lent{ordered: ordered, keys: keys}
}

// HasLent reports whether the service keeps objects for others, given its order.
func (m *Member) HasLent(ordered int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lent.ordered == ordered && len(m.lent.keys) > 0
}

// Lent returns the objects of the service's inventory that it keeps for others.
func (m *Member) Lent() []inventory.Object {
	ordered := m.service.Standing().Ordered
	m.mu.Lock()
	current := m.lent
	m.mu.Unlock()
	if current.ordered != ordered {
		return nil
	}
	var all []inventory.Object
	for k := range current.keys {
		if o, isHeld := m.service.Holds(k); isHeld {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b inventory.Object) int { return a.Compare(b.Key) })
	return all
}

func (m *Member) isLent(k inventory.Key, s Standing) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lent.ordered == s.Ordered && m.lent.keys[k]
}

// ClaimedBy returns the problem that an object belongs to another service.
func ClaimedBy(owner string) *reason.Problem {
	return reason.Errorf(reason.ObjectClaimed, "belongs to service %q already; remove it from one of the two", owner)
}
