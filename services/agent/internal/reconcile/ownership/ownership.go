// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership decides which service an object belongs to, and which service takes it over.
//
// An object moves from one service to another in three steps. First the new owner adds it to its
// own inventory. Then the new owner applies it, which changes the label. The previous owner removes
// it from its inventory after the new owner's is stored. So at least one inventory lists the object
// at any time. The newest plan's entries of both services decide which one may take the object, and
// which one must leave it.
//
// Three facts decide, in this order:
//
//   - claims: the first service of this process to take an object has it. They decide races that
//     the label on the object cannot decide, because it is read before it is written.
//   - inventories: a service holds the objects of its stored inventory.
//   - the newest plan: a service yields an object that its entry in the plan does not contain.
//
// While a plan is handed out, one of two affected services could act on the new plan while the
// other still has its order under the old one. So questions about services wait for the end of the
// hand-out.
//
// The order of locks is Registry.handOut, a unit's lock, then Registry.mu or Member.mu. The last
// two are never held during a call to another component.
package ownership

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/manifest"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// patience is how long an object that left its service waits for a service whose wanted objects are
// unknown.
const patience = 5 * time.Minute

// Service is the registry's view of a unit. Methods may be called concurrently.
type Service interface {
	// Standing returns the service's state between cluster and plan.
	Standing() Standing
	// Holds returns an object of the service's stored inventory.
	Holds(k inventory.Key) (inventory.Object, bool)
	// Nudge requests another run of the service.
	Nudge()
}

// Standing is the state of a service between the cluster and the plan. It is a value.
type Standing struct {
	// Order is the newest plan's order for the service.
	Order decide.Order
	// Newest is the newest plan's entry. IsBehind means that the service may not follow it yet.
	Newest   plan.Service
	IsBehind bool
	// Applied are the completely applied inputs. IsTouched reports whether a later run has begun to
	// change the cluster.
	Applied   inventory.Applied
	IsTouched bool
	// IsEmpty means that the stored inventory lists nothing.
	IsEmpty bool
	// FirstNamed is the generation of the plan that named the service first. Ordered is the
	// generation that brought its latest order, OrderedAt the time.
	FirstNamed, Ordered int64
	OrderedAt           time.Time
	// Stale is closed when a run under earlier orders has ended. Nil: there is no such run.
	Stale <-chan struct{}
}

// Registry holds the services of one cluster. It is safe for concurrent use.
type Registry struct {
	renderer manifest.Renderer
	cluster  k8s.Reader

	handOut sync.RWMutex // locked while a plan is handed out

	mu      sync.Mutex
	claims  claims
	members map[string]*Member
}

// New returns an empty registry. It renders manifests to find the objects that a service wants.
func New(renderer manifest.Renderer, cluster k8s.Reader) *Registry {
	renderer.IsTrial = true
	return &Registry{renderer: renderer, cluster: cluster, members: map[string]*Member{}}
}

// Member is one service of a registry. It is safe for concurrent use.
type Member struct {
	Name    string
	service Service

	mu     sync.Mutex
	lent   lent
	wanted *wantedKeys // of the newest plan, once requested
}

// lent are the objects that left a service and that it keeps for another one to take over. They
// count until another plan gives the service another order.
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

// Leave removes a service with all its claims, also on objects that it never created.
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

// Unclaim undoes a Claim or Reassign of an object that service has. Its previous owner has it
// again, or none if previous is service.
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

// Knows reports whether the service exists. It may be one that is being removed.
func (g *Registry) Knows(service string) bool {
	return g.member(service) != nil
}

// Nudge requests another run of services.
func (g *Registry) Nudge(services []string) {
	for _, name := range services {
		if m := g.member(name); m != nil {
			m.service.Nudge()
		}
	}
}

// Yields reports whether a service allows another one to have an object. It may render the
// service's manifests, and waits for the end of a run under the service's earlier orders.
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

// awaitStale blocks until a run under earlier orders, whose context was cancelled, has ended. It
// reports false if ctx is done before.
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

// HasClaimant reports whether another service of the plan wants an object that left its service,
// and nudges that service. It fails while that is unknown: a service that the plan first named no
// earlier than the object left, and that was never applied, may want it. After some minutes the
// answer counts as no.
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
				"service %q came with the same plan and cannot be rendered yet; it may want an object that is to be deleted", m.Name)
		}
	}
	return false, nil
}

// mayWant reports whether an object of the leaving service must wait for a service whose wanted
// objects are unknown.
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
