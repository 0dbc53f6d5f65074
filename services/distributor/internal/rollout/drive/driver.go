// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

const (
	// headsEvery is how often the leader looks for what people did at other replicas, and at times
	// that have come. allEvery is how often it reads the fleet although nothing seems to have changed.
	headsEvery = time.Second
	allEvery   = 15 * time.Second
	// fullEvery is how often it reads each service, whatever was announced. It is a net for
	// unannounced changes.
	fullEvery = 5 * time.Minute
	// settle is how long changes are collected before they are read together.
	settle = 200 * time.Millisecond
)

// Driver takes part in the election of the leader, and does the leader's work.
type Driver struct{ p Params }

// NewDriver returns a Driver.
func NewDriver(p Params) *Driver { return &Driver{p: p} }

// Run works until ctx is done, and returns its cause. While there is nothing to do, nothing is asked of
// the database.
func (d *Driver) Run(ctx context.Context) error {
	return election.Run(ctx, election.Params{
		Store: d.p.Election, Holder: d.p.Holder, Logger: d.p.Logger, Subject: "rollouts", Work: "drives the rollouts",
		IsNeeded: d.p.Fleet.IsNeeded, Lead: d.lead,
	})
}

// lead does the leader's work until ctx is done, until the database does not answer, or until there is
// nothing to do any more.
func (d *Driver) lead(ctx context.Context, term int64) error {
	watcher := d.p.Objects.WatchAll()
	defer watcher.Close()
	w := NewWork(d.p, term)
	w.announced = watcher.Take
	defer d.p.Metrics.forget()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		isChanged := false
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Ready():
			isChanged = true
		case <-timer.C:
		}
		isNeeded, err := w.Round(ctx, time.Now(), isChanged)
		if err != nil || !isNeeded {
			return err
		}
		timer.Reset(headsEvery)
		if err := backoff.Wait(ctx, settle); err != nil {
			return nil // the hub stops
		}
	}
}

// Round carries out due work. isChanged is true if the fleet may have changed since the last round.
// It reports whether there is anything to do at all.
func (w *Work) Round(ctx context.Context, now time.Time, isChanged bool) (isNeeded bool, err error) {
	isMoved, err := w.load(ctx)
	if err != nil {
		return true, err
	}
	if !isChanged && !isMoved && now.Sub(w.looked) < allEvery && !w.isDue(now) {
		return true, nil
	}
	// A look after the next refresh has seen all edits up to this revision. The revision after the look may be one
	// of which it has not seen everything.
	w.revision = w.p.Fleet.Revision()
	// An earlier leader's admissions come by the log: without it, services would be taken over twice.
	if err := w.p.Fleet.Refresh(ctx); err != nil {
		return true, err
	}
	w.looked, w.left = now, grantTimeout
	if !w.p.Fleet.IsNeeded() {
		return false, nil
	}
	sight := w.look(now)
	if err := w.release(ctx, sight.Uncovered); err != nil {
		return true, err
	}
	hide := w.hideLacking()
	for _, policy := range sight.Policies {
		known := w.recall(policy, &sight)
		hide(known)
		if err := w.drive(ctx, policy, known, now); err != nil && !errors.Is(err, ErrMoved) {
			return true, err
		}
	}
	w.p.Metrics.observe(w.records)
	return true, nil
}

// look returns the present view, which is one state of the catalog: a rollout that began with a
// part of an edit would bring the rest in another one. Keys are taken after the view was refreshed,
// so nothing that it took over is missed. Reading each service takes long, so nothing waits for it;
// objects that are edited meanwhile are read after it.
func (w *Work) look(now time.Time) (sight Sight) {
	if w.announced == nil {
		w.p.Fleet.Still(func() { sight = w.watch.Look(nil, true) })
		return sight
	}
	isAll := now.Sub(w.lookedAll) >= fullEvery
	if isAll {
		w.lookedAll = now
		keys, _ := w.announced()
		w.watch.Look(keys, true)
	}
	w.p.Fleet.Still(func() {
		keys, lagged := w.announced()
		if sight = w.watch.Look(keys, lagged); lagged {
			w.lookedAll = now
		}
	})
	if isAll {
		sight.Changes = nil // they are those since the look before, of which nothing was kept
	}
	return sight
}

// recall returns the memory of a policy with the present view of it, and forgets policies that are
// gone.
func (w *Work) recall(policy *catalog.RolloutPolicy, sight *Sight) *memory {
	if len(w.memories) > len(sight.Policies) {
		maps.DeleteFunc(w.memories, func(uid string, _ *memory) bool {
			return !slices.ContainsFunc(sight.Policies, func(p *catalog.RolloutPolicy) bool { return p.UID == uid })
		})
	}
	known := w.memories[policy.UID]
	if known == nil {
		known = newMemory()
		w.memories[policy.UID] = known
	}
	changes, isKnown := sight.Changes[policy.UID]
	known.take(sight.Members[policy.UID], changes, !isKnown)
	return known
}

// load reads the rollouts that have changed since they were last read.
func (w *Work) load(ctx context.Context) (hasChanged bool, err error) {
	heads, err := w.p.Store.Heads(ctx)
	if err != nil {
		return false, err
	}
	left := map[string]*Record{}
	for _, head := range heads {
		known := w.records[head.PolicyUID]
		if known == nil || known.ID != head.ID || known.Version != head.Version {
			hasChanged = true
			if known, err = w.p.Store.Record(ctx, head.ID); err != nil {
				return false, err
			}
		}
		left[head.PolicyUID] = known
	}
	w.records = left
	return hasChanged, nil
}

// isDue reports whether a rollout waits for a time that has come.
func (w *Work) isDue(now time.Time) bool {
	for _, record := range w.records {
		if at := record.Run.WakeAt; !at.IsZero() && !now.Before(at) {
			return true
		}
	}
	return false
}

// maxStep bounds the admissions of one transaction.
const maxStep = 1000

// release has services follow their sources that no policy covers any more.
func (w *Work) release(ctx context.Context, uncovered []*catalog.Admission) error {
	var all []catalog.Admission
	for _, known := range uncovered {
		all = append(all, catalog.Admission{ServiceUID: known.ServiceUID, Service: known.Service})
	}
	return w.admit(ctx, all, nil)
}

// admit writes admissions, of some of these services, that belong to no rollout.
func (w *Work) admit(ctx context.Context, all []catalog.Admission, members []Seen) error {
	for len(all) > 0 {
		n := min(len(all), maxStep)
		if err := w.keep(ctx, wishesOf(w.p.Fleet, all[:n], members)); err != nil {
			return err
		}
		if err := w.p.Store.Save(ctx, w.term, Step{Admissions: all[:n]}); err != nil {
			return err
		}
		if all = all[n:]; len(all) == 0 {
			return w.p.Fleet.Refresh(ctx)
		}
	}
	return nil
}

// drive takes one policy a step further.
func (w *Work) drive(ctx context.Context, policy *catalog.RolloutPolicy, known *memory, now time.Time) error {
	latest := w.records[policy.UID]
	if len(known.newcomers) > 0 {
		taken, wishes := takeOver(known.members, latest, w.granted)
		if w.grant(ctx, wishes) || len(taken) > 0 {
			// The next round sees them.
			w.looked = time.Time{}
			return w.admit(ctx, taken, known.members)
		}
	}
	record, before := latest, int64(0)
	if record == nil || record.Run.State.HasEnded() {
		if latest != nil {
			latest.forget(known.members)
		}
		if w.isTooLarge(ctx, policy, len(known.members)) || !known.hasNews(latest) {
			return nil
		}
		if record = begin(policy, known.members, latest, now); record == nil {
			return nil
		}
		if err := w.sign(ctx, policy, known.members, latest, record); err != nil {
			return err
		}
		if err := w.stage(ctx, record, known.members); err != nil {
			return err
		}
		record.Summarize()
	} else {
		before = record.Run.Seq
	}
	return w.step(ctx, record, known, before, now)
}

// isTooLarge reports whether a policy covers more services than a rollout can have, and logs the first time.
// The services keep what they have.
func (w *Work) isTooLarge(ctx context.Context, policy *catalog.RolloutPolicy, services int) bool {
	isTooLarge := services > rollout.MaxMembers
	if isTooLarge && !w.tooLarge[policy.UID] {
		w.p.Logger.WarnContext(ctx, "policy covers more services than a rollout can have; nothing is rolled out",
			slog.String("policy", policy.Name), slog.Int("services", services), slog.Int("most", rollout.MaxMembers))
	}
	w.tooLarge[policy.UID] = isTooLarge
	return isTooLarge
}

const (
	// maxWishes bounds what one round resolves for the newcomers of a policy, and grantTimeout how
	// long a round asks for the wishes of all policies: rollouts must not wait for them.
	maxWishes    = 16
	grantTimeout = 5 * time.Second
	// wishRetry is how long a wish that was not granted waits.
	wishRetry = 15 * time.Second
	// maxGranted bounds the wishes that are remembered.
	maxGranted = 4096
)

// grant resolves the wishes of newcomers, and reports whether one was granted. The wishes of others
// are resolved in later rounds. A folder that the commit does not have is not granted: its service
// waits until the others have a commit that has it.
func (w *Work) grant(ctx context.Context, wishes []Wish) (isGranted bool) {
	begun := time.Now()
	wishes = slices.DeleteFunc(wishes, func(wish Wish) bool {
		at, hasFailed := w.failed[wish]
		return hasFailed && begun.Sub(at) < wishRetry
	})
	if len(wishes) == 0 || w.left <= 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, w.left)
	defer cancel()
	defer func() { w.left -= time.Since(begun) }()
	rand.Shuffle(len(wishes), func(i, j int) { wishes[i], wishes[j] = wishes[j], wishes[i] })
	for _, wish := range wishes[:min(len(wishes), maxWishes)] {
		if _, isKnown := w.granted[wish]; isKnown {
			continue // of a service before
		}
		snapshot, err := w.p.Sources.Resolve(ctx, wish.at())
		if err != nil {
			w.p.Logger.DebugContext(ctx, "newcomer waits for what the others have", slog.String("repository", wish.Source.Repository),
				slog.String("path", wish.Source.Path), slog.String("commit", wish.Commit), slog.Any("error", err))
			remember(w.failed, wish, begun)
			continue
		}
		remember(w.granted, wish, snapshot)
		isGranted = true
	}
	return isGranted
}

func remember[V any](known map[Wish]V, wish Wish, value V) {
	if len(known) >= maxGranted {
		clear(known)
	}
	known[wish] = value
}

// step passes the view to a rollout, and writes its decisions.
func (w *Work) step(ctx context.Context, record *Record, known *memory, before int64, now time.Time) error {
	known.follow(record)
	events := observe(record, known, now, &w.digests)
	if record.Run.Strategy.Replaces && !record.Run.IsBack && record.Run.State != rollout.Halted && record.isNewer(known) {
		events = append(events, rollout.Event{Kind: rollout.Command, At: now, Verb: rollout.Replace, Person: "leat", Reason: "there is a newer commit, spec or configuration"})
	}
	wake := record.Run.WakeAt
	isDue := !wake.IsZero() && !now.Before(wake)
	isTold := record.Run.Seq > record.Run.Ticked
	if len(events) == 0 && !isDue && !isTold && before > 0 {
		known.settle()
		return nil
	}
	events = append(events, rollout.Event{Kind: rollout.Tick, At: now})
	next := *record
	var decisions []rollout.Decision
	next.Run, decisions = record.Run.Advance(events...)
	if next.Run.State.HasEnded() {
		next.refuse()
	}
	if slices.ContainsFunc(events, func(e rollout.Event) bool { return len(e.Joined) > 0 }) {
		next.Summarize()
	}
	events = events[:next.Run.Seq-record.Run.Seq] // what came after the end was not taken
	saved := Step{Record: &next, Events: events, Decisions: decisions, Admissions: next.admissions(decisions)}
	if before > 0 {
		saved.Before = record
	}
	err := w.p.Store.Save(ctx, w.term, saved)
	if err != nil {
		return err
	}
	next.Version++
	next.Start.Members = nil // they are for replays
	known.settle()
	known.step(&next)
	w.records[next.PolicyUID] = &next
	w.p.Metrics.decided(decisions)
	w.log(ctx, &next, decisions)
	return w.p.Fleet.Refresh(ctx)
}

func (w *Work) log(ctx context.Context, record *Record, decisions []rollout.Decision) {
	for _, d := range decisions {
		if d.Kind == rollout.Halt || d.Kind == rollout.Done {
			w.p.Logger.InfoContext(ctx, "rollout "+string(d.Kind), slog.String("rollout", record.ID), slog.String("why", d.Why))
		}
	}
}
