// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/window"
	"github.com/leatdev/leat/internal/kit/amount"
)

// step decides at a tick.
func (d *decider) step() {
	r := d.run
	r.Blocked, r.Ticked = Blocked{}, r.Seq
	wake := d.wake()
	if r.State == Paused && !r.Until.IsZero() && !r.Now.Before(r.Until) {
		d.goOn()
	}
	switch r.State { //nolint:exhaustive // the others have ended
	case Paused, Halted:
		r.Blocked = Blocked{By: ByPerson, Why: r.Why, Until: r.Until}
		wake.by(r.Until)
	case Running:
		d.markFailed(wake)
		if why, failed := d.overBudget(); why != "" {
			d.halt(why, failed)
			break
		}
		d.forward(wake)
	}
	if r.State == RollingBack {
		d.backward(wake)
	}
	if r.State.HasEnded() {
		return
	}
	if at := wake.at; !at.IsZero() && !at.Equal(r.WakeAt) {
		d.decide(Decision{Kind: Wake, At: at})
	}
	r.WakeAt = wake.at
}

// alarm is the earliest time at which something may change without an event.
type alarm struct{ now, at time.Time }

func (d *decider) wake() *alarm { return &alarm{now: d.run.Now} }

// by adds a time. One that has passed is not waited for.
func (a *alarm) by(at time.Time) {
	if at.After(a.now) && (a.at.IsZero() || at.Before(a.at)) {
		a.at = at
	}
}

// isUnwell reports whether a member that should be settled has had its time: it has been failing for too
// long with what it should have, or did not become healthy.
func (d *decider) isUnwell(p *Progress, wake *alarm) bool {
	s, now := &d.run.Strategy, d.run.Now
	if !p.IsOnline {
		return d.isLost(p, wake)
	}
	if !p.FailingSince.IsZero() && p.Has == p.wants() {
		at := later(p.FailingSince, p.AdmittedAt).Add(s.FailAfter)
		if !at.After(now) {
			return true
		}
		wake.by(at)
	}
	if p.isUp() {
		return false
	}
	due := later(p.UnsettledSince, p.OnlineSince).Add(s.HealthTimeout)
	if !due.After(now) {
		return true
	}
	wake.by(due)
	return false
}

// isLost reports whether a member fell silent with the candidate and has had its time to come back. Without
// FailsOffline no member is lost, and neither is one that goes back.
func (d *decider) isLost(p *Progress, wake *alarm) bool {
	if !d.run.Strategy.FailsOffline || !p.isSilent() {
		return false
	}
	// A retry gives it its time again: it is unsettled since then.
	due := later(p.OnlineSince, p.UnsettledSince).Add(d.run.Strategy.OfflineAfter)
	if !due.After(d.run.Now) {
		return true
	}
	wake.by(due)
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// markFailed finds the members that failed with the candidate.
func (d *decider) markFailed(wake *alarm) {
	for i, p := range d.run.Members {
		if !p.IsAdmitted || !p.FailedAt.IsZero() {
			continue
		}
		if d.isUnwell(p, wake) {
			p := d.edit(i)
			p.FailedAt = d.run.Now
			if p.Health != Failing || p.Why == "" {
				p.Why = p.unsettled()
			}
		}
	}
}

// overBudget returns why the run halts and the members because of which it does, or "".
func (d *decider) overBudget() (why string, failed []*Progress) {
	r := d.run
	budget := r.Strategy.Budget
	for _, p := range r.Members {
		isCounted := p.IsAdmitted && !p.FailedAt.IsZero() && (budget.OfRun || p.Wave == r.Cursor) &&
			(budget.Window == 0 || r.Now.Sub(p.FailedAt) < budget.Window)
		if isCounted {
			failed = append(failed, p)
		}
	}
	if len(failed) <= budget.Failed {
		return "", nil
	}
	return fmt.Sprintf("%d failed, %d allowed", len(failed), budget.Failed), failed
}

// halt stops the run, or has it go back.
func (d *decider) halt(why string, failed []*Progress) {
	r := d.run
	stop, because := stopOf(why, failed), make([]int64, len(failed))
	for i, p := range failed {
		because[i] = p.Seq
	}
	r.State, r.Stop, r.TurnedBy = Halted, stop, append([]int64{r.Seq}, because[:min(len(because), maxBecause-1)]...)
	d.decide(Decision{Kind: Halt, Wave: r.Current(), Why: stop.Says(Failure.name)}, because...)
	if !r.Strategy.PausesOnHalt && !r.IsBack {
		d.turn(stop)
		return
	}
	r.Blocked = Blocked{By: ByPerson, Why: why}
}

// forward admits members, and passes waves that are well.
func (d *decider) forward(wake *alarm) {
	r := d.run
	for {
		d.admit(wake)
		if r.Cursor >= len(r.Waves) {
			if open, _, _ := d.openMembers(wake); len(open) > 0 {
				d.block(Blocked{By: ByMember, Names: bounded(open), Why: amount.Of(len(open), "member") + " " + amount.Are(len(open)) + " on the way"})
				return
			}
			d.end(Completed, Stop{})
			return
		}
		if !d.isPassed(wake) {
			return
		}
		r.Waves[r.Cursor].PassedAt = r.Now
		r.Cursor++
		r.Blocked = Blocked{}
	}
}

// calendar returns the strategy's windows. Windows of a stored strategy were validated; if one
// cannot be read, no member is admitted.
func (r *Run) calendar() (window.Calendar, error) { return window.New(r.Strategy.Windows) }

// closedUntil returns when members may be admitted again; zero if they may now.
func (r *Run) closedUntil() (until time.Time, why string) {
	for _, f := range r.Strategy.Freezes {
		if !r.Now.Before(f.From) && r.Now.Before(f.Until) && f.Until.After(until) {
			until, why = f.Until, cmp.Or(f.Reason, "a freeze")
		}
	}
	if !until.IsZero() {
		return until, "frozen: " + why
	}
	calendar, err := r.calendar()
	if err != nil {
		return r.Now.Add(time.Hour), "the windows cannot be read: " + err.Error()
	}
	at, opens := calendar.Next(r.Now, window.Change)
	switch {
	case opens && !at.After(r.Now):
		return time.Time{}, ""
	case !opens && !at.After(r.Now):
		at = r.Now.Add(24 * time.Hour)
	}
	return at, "no window is open"
}

// admit admits who may be admitted now: first members of waves that have passed, then members of
// the current one.
func (d *decider) admit(wake *alarm) {
	r := d.run
	waiting := d.unadmitted(wake)
	if len(waiting) == 0 {
		return
	}
	if until, why := r.closedUntil(); !until.IsZero() {
		wake.by(until)
		r.Blocked = Blocked{By: ByTime, Until: until, Why: why}
		return
	}
	limit, down, onTheirWay := r.Limit(), r.Unavailable(), 0
	for _, p := range r.Members {
		if p.IsAdmitted && p.Wave == r.Cursor && !p.isUp() {
			onTheirWay++
		}
	}
	isHeld := false
	for _, i := range waiting {
		p, concurrent := r.Members[i], 0
		if p.Wave == r.Cursor && r.Cursor < len(r.Waves) {
			concurrent = r.wave(r.Cursor).Concurrent
		}
		costs := 0
		if p.isUp() {
			costs = 1
		}
		switch {
		case down+costs > limit:
			isHeld = true
			continue
		case concurrent > 0 && onTheirWay >= concurrent:
			continue
		}
		down += costs
		if p.Wave == r.Cursor {
			onTheirWay++
		}
		d.admitOne(i)
	}
	if isHeld {
		r.Blocked = Blocked{By: ByMember, Names: r.down(), Why: unavailable(down, limit)}
	}
}

// unadmitted returns the indexes of the members that could be admitted if there were room. An offline member is not,
// until its wave has passed: then it finds the candidate when it comes back.
func (d *decider) unadmitted(wake *alarm) []int {
	r := d.run
	var found []int
	for i, p := range r.Members {
		if !p.isChanged() || p.IsAdmitted || p.Wave > r.Cursor {
			continue
		}
		if !p.IsOnline {
			if p.Wave == r.Cursor {
				continue
			}
			if !p.isOfflineFor(r.Strategy.OfflineAfter, r.Now) {
				wake.by(p.OnlineSince.Add(r.Strategy.OfflineAfter))
				continue
			}
		}
		found = append(found, i)
	}
	return found
}

func (d *decider) admitOne(i int) {
	r, p := d.run, d.edit(i)
	because := []int64{p.Seq}
	if before := min(p.Wave, r.Cursor) - 1; before >= 0 {
		for _, given := range r.Waves[before].Approvals {
			because = append(because, given.Seq)
		}
	}
	p.WasUp, p.Why = p.isUp(), ""
	p.IsAdmitted, p.IsWithdrawn, p.AdmittedAt, p.UnsettledSince, p.FailedAt = true, false, r.Now, r.Now, time.Time{}
	if p.isUp() {
		p.UnsettledSince = time.Time{}
	}
	d.decide(Decision{Kind: Admit, Member: p.UID, Wave: r.Waves[p.Wave].Name}, because...)
}

// down returns the names of the first members that are not available.
func (r *Run) down() []string {
	var names []string
	for _, p := range r.Members {
		if len(names) < maxNamed && p.isDown() {
			names = append(names, p.Name)
		}
	}
	return names
}

// isPassed reports whether the current wave is done: each member is well, or excused, for long enough,
// and people have approved.
func (d *decider) isPassed(wake *alarm) bool {
	r := d.run
	w, state := r.wave(r.Cursor), &r.Waves[r.Cursor]
	if state.IsEmpty && d.hasLater() {
		d.block(Blocked{By: ByPerson, Why: fmt.Sprintf(
			"wave %q selects no member; skip it, or abort the rollout and correct the wave's clusters or labels in the policy", w.Name)})
		return false
	}
	open, well, all := d.openMembers(wake)
	switch {
	case len(open) > 0:
		d.block(Blocked{By: ByMember, Names: bounded(open), Why: fmt.Sprintf("wave %q waits for %d of %s", w.Name, len(open), amount.Of(all, "member"))})
	case all > 0 && well == 0 && d.hasLater():
		d.block(Blocked{By: ByMember, Names: bounded(d.namesIn(r.Cursor)), Why: fmt.Sprintf("wave %q has nobody who shows that the candidate works", w.Name)})
		open = d.namesIn(r.Cursor)
	}
	if len(open) > 0 {
		state.SoakSince = time.Time{}
		return false
	}
	if state.SoakSince.IsZero() {
		state.SoakSince = r.Now
	}
	if until := state.SoakSince.Add(w.Soak); all > 0 && until.After(r.Now) {
		wake.by(until)
		d.block(Blocked{By: ByTime, Until: until, Why: fmt.Sprintf("wave %q soaks", w.Name)})
		return false
	}
	return d.isApproved(w, state)
}

func (d *decider) isApproved(w Wave, state *WaveState) bool {
	missing := d.run.missing(d.run.Cursor)
	if missing == 0 {
		return true
	}
	if state.AskedAt.IsZero() {
		state.AskedAt = d.run.Now
		d.decide(Decision{Kind: Ask, Wave: w.Name})
	}
	why := fmt.Sprintf("wave %q waits for %d more to approve", w.Name, missing)
	if w.Approval.NotByAuthor && len(d.run.Candidate.Authors) > 0 {
		why += ", who did not write what is rolled out"
	}
	d.block(Blocked{By: ByPerson, Names: w.Approval.Groups, Why: why})
	return false
}

// block sets what the run waits for, unless that is known already.
func (d *decider) block(b Blocked) {
	if d.run.Blocked.By == "" {
		d.run.Blocked = b
	}
}

// openMembers returns the members of the current wave that have to be waited for, how many of it are
// well, and how many it has. Once all waves have passed, it is about all members.
func (d *decider) openMembers(wake *alarm) (open []string, well, all int) {
	r := d.run
	isLast := r.Cursor >= len(r.Waves)
	for _, p := range r.Members {
		if !p.isChanged() || p.Wave != r.Cursor && !isLast {
			continue
		}
		all++
		switch {
		case p.IsAdmitted && p.isUp():
			well++
		case p.IsAdmitted && !p.FailedAt.IsZero():
		case d.isExcused(p) && (p.IsAdmitted || !isLast):
		default:
			if !p.IsOnline {
				wake.by(p.OnlineSince.Add(r.Strategy.OfflineAfter))
			}
			open = append(open, p.Name)
		}
	}
	return open, well, all
}

// isExcused reports whether a wave no longer waits for a member, because its cluster is offline.
func (d *decider) isExcused(p *Progress) bool {
	s := &d.run.Strategy
	return p.isOfflineFor(s.OfflineAfter, d.run.Now) && (!s.FailsOffline || !p.isSilent())
}

// hasLater reports whether the candidate changes a member of a later wave.
func (d *decider) hasLater() bool {
	return slices.ContainsFunc(d.run.Members, func(p *Progress) bool { return p.Wave > d.run.Cursor })
}

func (d *decider) namesIn(wave int) []string {
	var names []string
	for _, p := range d.run.Members {
		if p.Wave == wave {
			names = append(names, p.Name)
		}
	}
	return names
}

// backward withdraws members, the latest first. Members that are not available anyway go at once.
func (d *decider) backward(wake *alarm) {
	r := d.run
	if why, because := d.failedBack(wake); why != "" {
		d.halt(why, because)
		return
	}
	limit, down := r.Limit(), r.Unavailable()
	chosen, held := r.latest(max(limit-down, 0))
	for _, i := range chosen {
		p := d.edit(i)
		if p.isUp() {
			down++
		}
		p.IsAdmitted, p.IsWithdrawn, p.UnsettledSince, p.FailedAt = false, true, r.Now, time.Time{}
		// The time counts for which it fails with its former content.
		p.AdmittedAt = r.Now
		if p.isUp() {
			p.UnsettledSince = time.Time{}
		}
		d.decide(Decision{Kind: Withdraw, Member: p.UID, Wave: r.Waves[p.Wave].Name, Why: r.Says(Failure.name)}, append([]int64{p.Seq}, r.TurnedBy...)...)
	}
	if held > 0 {
		d.block(Blocked{By: ByMember, Names: r.down(), Why: unavailable(down, limit)})
		return
	}
	if open := d.openBack(wake); len(open) > 0 {
		d.block(Blocked{By: ByMember, Names: bounded(open), Why: amount.Of(len(open), "member") + " " + amount.Are(len(open)) + " on the way back"})
		return
	}
	d.end(RolledBack, r.Stop, r.TurnedBy...)
}

// latest returns the indexes of the members that go back now, the latest admitted first: the
// unavailable ones, and so many of the others. held counts the members that stay.
func (r *Run) latest(room int) (chosen []int, held int) {
	var up []int
	for i, p := range r.Members {
		switch {
		case !p.IsAdmitted:
		case p.isUp():
			up = append(up, i)
		default:
			chosen = append(chosen, i)
		}
	}
	byAdmission := func(i, j int) int {
		a, b := r.Members[i], r.Members[j]
		return cmp.Or(b.AdmittedAt.Compare(a.AdmittedAt), cmp.Compare(b.Order, a.Order), cmp.Compare(b.UID, a.UID))
	}
	all := len(up)
	if room = min(room, all); room > 0 {
		up = r.admittedLast(up, room)
		slices.SortFunc(up, byAdmission)
		chosen = append(chosen, up[:room]...)
	}
	slices.SortFunc(chosen, byAdmission)
	return chosen, all - room
}

// admittedLast returns the members that were admitted at the latest times: at least n of them, and
// few more, because members are admitted in steps. Sorting all for each step of a rollback would be
// too much.
func (r *Run) admittedLast(indexes []int, n int) []int {
	steps := map[time.Time]int{}
	for _, i := range indexes {
		steps[r.Members[i].AdmittedAt]++
	}
	times := slices.SortedFunc(maps.Keys(steps), func(a, b time.Time) int { return b.Compare(a) })
	first := times[0]
	for _, first = range times {
		if n -= steps[first]; n <= 0 {
			break
		}
	}
	return slices.DeleteFunc(indexes, func(i int) bool { return r.Members[i].AdmittedAt.Before(first) })
}

// failedBack returns why the rollback halts and the members because of which it does, or "". A member that was
// not available before it was admitted cannot fail it.
func (d *decider) failedBack(wake *alarm) (why string, failed []*Progress) {
	for _, p := range d.run.Members {
		if p.IsWithdrawn && p.WasUp && d.isUnwell(p, wake) {
			failed = append(failed, p)
		}
	}
	if len(failed) == 0 {
		return "", nil
	}
	return "the rollback failed", failed
}

// openBack returns the members that are on their way back.
func (d *decider) openBack(wake *alarm) []string {
	var open []string
	for _, p := range d.run.Members {
		if !p.IsWithdrawn || !p.WasUp || p.isUp() || p.isOfflineFor(d.run.Strategy.OfflineAfter, d.run.Now) {
			continue
		}
		if !p.IsOnline {
			wake.by(p.OnlineSince.Add(d.run.Strategy.OfflineAfter))
		} else {
			d.isUnwell(p, wake)
		}
		open = append(open, p.Name)
	}
	return open
}

// unavailable describes how many members are not available, and how many may be.
func unavailable(down, limit int) string {
	return fmt.Sprintf("%s %s not available, at most %d may be", amount.Of(down, "member"), amount.Are(down), limit)
}

// bounded returns the first names.
func bounded(names []string) []string { return slices.Clone(names[:min(len(names), maxNamed)]) }
