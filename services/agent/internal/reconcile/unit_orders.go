// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"time"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/observe"
	"github.com/leatdev/leat/services/agent/internal/reconcile/ownership"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// errSuperseded ends a run whose plan entry is no longer the newest.
var errSuperseded = errors.New("superseded by a newer plan")

// follow gives the unit an entry of a plan of that time and generation. It reports false if the
// unit is closed.
func (u *unit) follow(entry plan.Service, planTime, now time.Time, generation int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isClosed {
		return false
	}
	owesObjects := u.member.HasLent(u.state.Ordered)
	if u.state.OrderFollow(entry, planTime, now, generation) {
		u.supersedeLocked()
	}
	u.record.Applied = u.state.Stored.Applied
	u.admitLocked(now)
	u.rules = submit.NewRules(u.state.Desired.Spec.Policy)
	u.state.SettleOrder(owesObjects)
	u.Wake()
	return true
}

// dismiss takes the unit out of the plan of that generation. If the guard keeps the unit, heldWhy
// is the reason.
func (u *unit) dismiss(heldWhy string, generation int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.isClosed && u.state.OrderLeave(heldWhy, time.Now(), generation) {
		u.supersedeLocked()
		u.Wake()
	}
}

// request orders a run, or confirms a removal that the guard keeps.
func (u *unit) request() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.Request()
	u.Wake()
}

// tryAgain has a run that failed tried again if bring has brought its retry forward.
func (u *unit) tryAgain(bring func(*decide.State) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bring(&u.state) {
		u.Wake()
	}
}

// hasten moves the next refresh of the unchanged service forward to that time.
func (u *unit) hasten(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.Hasten(at)
	u.Wake()
}

// close ends the unit unless a newer plan has the service again.
func (u *unit) close() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.isClosed = u.state.Order == decide.Leave
	return u.isClosed
}

func (u *unit) order() decide.Order {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.Order
}

func (u *unit) isForeign(owner string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state.IsForeign(owner)
}

// observe records an object's state from a watch.
func (u *unit) observe(o observe.Observation) {
	effect := u.objects.Observe(o)
	if effect.HasNewHealth {
		if effect.Health.State == health.Healthy {
			u.mu.Lock()
			u.state.RetryOnHealthy()
			u.mu.Unlock()
		}
		u.Announce(effect.Ref, u.shared.secrets.verdict(u.name, effect.Health).Sentence())
	}
	if effect.HasNews {
		u.Wake()
	}
}

// Announce implements execute.Progress.
func (u *unit) Announce(ref inventory.Ref, message string) {
	u.mu.Lock()
	phase := u.status.Phase
	u.mu.Unlock()
	u.shared.events.publish(report.Event{
		Time: time.Now(), Service: u.name, Phase: phase, Object: &ref, Message: message,
	})
}

// Standing implements ownership.Service.
func (u *unit) Standing() ownership.Standing {
	isEmpty := u.objects.Len() == 0
	u.mu.Lock()
	defer u.mu.Unlock()
	s := ownership.Standing{
		Order: u.state.Order, Newest: u.state.Newest, IsBehind: u.state.IsBehind(), Applied: u.state.Stored.Applied,
		IsTouched: u.state.Stored.IsTouched, IsEmpty: isEmpty, FirstNamed: u.state.FirstNamed, Ordered: u.state.Ordered,
		OrderedAt: u.state.OrderedAt,
	}
	if s.Order == decide.Follow && !s.IsBehind && !u.state.Attempt.Tried.SameInputs(u.state.Desired.Inputs()) {
		s.Stale = u.running
	}
	return s
}

// Holds implements ownership.Service.
func (u *unit) Holds(k inventory.Key) (inventory.Object, bool) { return u.objects.Get(k) }

// Nudge implements ownership.Service.
func (u *unit) Nudge() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.state.Nudge()
	u.Wake()
}
