// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
	"github.com/leatdev/leat/services/agent/internal/reconcile/submit"
	"github.com/leatdev/leat/services/agent/internal/window"
)

// gate stands between the plan and what a unit works on. While the newest entry may not be applied, because something that
// it depends on is not there or its window is closed, the unit goes on with what is applied already, as if the plan had not
// changed: drift is put right, health is watched. Waiting takes no slot. The unit's lock guards the gate.
type gate struct {
	newest  plan.Service      // what the plan says
	kept    plan.Service      // what is applied completely; without a name: unknown
	request inventory.Applied // the inputs that a person asked to be applied now
	bar     *reason.Problem   // why newest is not worked on; nil: it is
	frozen  bool              // a strict window denies even corrections
	until   time.Time         // when to look again; zero: when something changes

	calendar      window.Calendar
	unreadable    error          // the windows cannot be read
	prerequisites *prerequisites // nil: no change waits for objects
}

// offer takes over what the plan says. u.mu is held, as in all that follows.
func (u *unit) offer(s plan.Service) {
	if s.SyncRequest != u.newest.SyncRequest && s.SyncRequest != u.stored.Applied.SyncRequest {
		u.request = s.Inputs()
	}
	u.newest = s
	u.calendar, u.unreadable = window.New(s.Spec.Policy.Windows)
}

// look decides again what the unit works on. It starts to follow prerequisites when a change waits for
// objects, and stops when that change is applied: while a failed run waits for its next try, they stay
// known.
func (u *unit) look(ctx context.Context, now time.Time) {
	u.mu.Lock()
	u.admit(now)
	var wanted []prerequisite
	if u.order == decide.Follow && u.brings() {
		wanted = prerequisitesOf(u.newest)
	}
	last := u.prerequisites
	if last.areFor(wanted) {
		u.mu.Unlock()
		return
	}
	u.prerequisites = nil
	if len(wanted) > 0 {
		cluster, err := u.engine.as(u.newest.Spec)
		u.prerequisites = followPrerequisites(ctx, cluster, err, wanted, u.engine.Judge, func() { signal(u.wake) })
	}
	u.mu.Unlock()
	last.stop()
}

// admit lets the newest entry in, or keeps to what is applied.
func (u *unit) admit(now time.Time) {
	if u.order != decide.Follow {
		u.bar, u.frozen, u.until = nil, false, time.Time{}
		return
	}
	u.freeze(now)
	u.bar = u.barred(now)
	switch {
	case u.bar == nil:
		u.workOn(u.newest, now)
	case u.cancel == nil: // otherwise a run that was let in goes on to its end
		u.workOn(u.fallback(), now)
	}
	if u.current() && len(u.desired.Bundles) > 0 {
		u.kept = u.desired
	}
	u.relax(now)
}

// workOn changes what the unit works on. That alone does not make the next try of what failed come earlier.
func (u *unit) workOn(s plan.Service, now time.Time) {
	if s.UID == u.desired.UID && s.Inputs().SameInputs(u.desired.Inputs()) {
		u.desired, u.rules = s, submit.NewRules(s.Spec.Policy)
		return
	}
	attempts, retryAt := u.attempts, u.retryAt
	rested := u.desired.Spec.Paused || u.desired.Spec.DryRun
	u.renew()
	u.attempts, u.retryAt = attempts, retryAt
	u.desired, u.rules = s, submit.NewRules(s.Spec.Policy)
	u.objects.SetDriftMode(s.Spec.Policy.Drift, now)
	u.dirty = rested && !u.still() // what others did meanwhile is looked at
}

// fallback is what is applied; without bundles, and thus left alone, where the cluster holds something half-way, or where an
// older agent has applied it.
func (u *unit) fallback() plan.Service {
	if u.kept.Name != "" && u.kept.UID == u.newest.UID && !u.stored.Touched && u.kept.Inputs().SameInputs(u.stored.Applied) {
		return u.kept
	}
	return plan.Service{Name: u.name, UID: u.newest.UID}
}

// entryOf is what an earlier process has applied. Without a name: unknown.
func entryOf(record inventory.Record) (s plan.Service) {
	if len(record.Entry) == 0 || json.Unmarshal(record.Entry, &s) != nil {
		return plan.Service{}
	}
	return s
}

// stash notes what has been applied, for another process.
func (r *run) stash(context.Context) error {
	if !r.news && len(r.record.Entry) > 0 {
		return nil
	}
	entry, err := json.Marshal(r.service)
	if err != nil {
		return fmt.Errorf("encode entry: %w", err)
	}
	r.record.Entry = entry
	return nil
}

// brings tells whether the newest entry, once let in, changes the cluster beyond putting right what is applied.
func (u *unit) brings() bool {
	s := u.newest
	return len(s.Bundles) > 0 && !s.Spec.Paused && !s.Spec.DryRun &&
		(u.forced || u.stored.Touched || !s.Inputs().SameInputs(u.stored.Applied))
}

// barred says why the newest entry may not be applied now.
func (u *unit) barred(now time.Time) *reason.Problem {
	if !u.brings() {
		return nil
	}
	if problem := u.shut(now); problem != nil {
		return problem
	}
	if !u.stored.Touched && u.newest.Inputs().SameContent(u.stored.Applied) {
		return nil // nothing is new but that somebody asked
	}
	return u.missing()
}

// freeze looks whether a strict window denies everything, and notes when that ends.
func (u *unit) freeze(now time.Time) {
	u.frozen, u.until = !u.calendar.Open(now, window.Correction), time.Time{}
	if u.frozen {
		u.until, _ = u.calendar.Next(now, window.Correction)
	}
}

// shut says that the service's windows are closed, and notes when to look again.
func (u *unit) shut(now time.Time) *reason.Problem {
	occasion := window.Change
	if u.request.SameInputs(u.newest.Inputs()) {
		occasion = window.Request
	}
	if u.unreadable != nil && occasion == window.Change {
		return reason.Errorf(reason.SyncWindowClosed, "the service's windows cannot be read, so a change waits until somebody syncs the service: %v", u.unreadable)
	}
	if u.calendar.Open(now, occasion) {
		return nil
	}
	opening, opens := u.calendar.Next(now, occasion)
	u.until = earliest(u.until, opening)
	if !opens {
		return reason.Errorf(reason.SyncWindowClosed, "no window of the service opens in the foreseeable future; correct its windows")
	}
	return reason.Errorf(reason.SyncWindowClosed, "a change waits for the service's next window, which opens at %s", opening.UTC().Format("2006-01-02 15:04 MST"))
}

// missing says what the service waits for.
func (u *unit) missing() *reason.Problem {
	all := u.engine.relations.unmet(u.name, u.newest.Spec.ServicesNeeded())
	all = append(all, u.prerequisites.missing(prerequisitesOf(u.newest))...)
	const enough = 3
	switch {
	case len(all) == 0:
		return nil
	case len(all) > enough:
		all = append(all[:enough], fmt.Sprintf("and %d more", len(all)-enough))
	}
	return reason.Errorf(reason.DependencyNotReady, "a change waits: %s", strings.Join(all, "; "))
}

// needed tells whether others, which left the plan with this one, have to go before it.
func (u *unit) needed() bool {
	return len(u.engine.relations.needed(u.name)) > 0
}

// alarm is when to look again for the sake of a window, of tests that could not be run, or of a dry run; zero when nothing of
// that counts.
func (u *unit) alarm() time.Time {
	at := u.until
	if u.untested() && time.Now().Before(u.retrial) {
		at = earliest(at, u.retrial)
	}
	if u.desired.Spec.DryRun && !u.desired.Spec.Paused {
		at = earliest(at, u.refresh)
	}
	return at
}
