// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/fingerprint"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

const (
	// gather is how long a correction waits for company: what a person or a program changes in one go.
	gather = 20 * time.Millisecond
	// contestWindow is how long somebody has to leave an object alone for their changes to count as new.
	contestWindow = 10 * time.Minute
	// freeCorrections is how many corrections in a row are made at once; from then on somebody insists.
	freeCorrections = 3
	// contestPause is the pause then; it doubles each time.
	contestPause, maxContestPause = time.Second, 5 * time.Minute
	contestJitter                 = 0.25
)

// corrected notes one more correction of an object.
func (t *track) corrected(now time.Time) {
	c := t.contest()
	if now.Sub(c.last) > contestWindow {
		c = contest{}
	}
	c.count++
	c.last, c.until = now, now
	if c.count >= freeCorrections {
		c.pause = min(max(contestPause, 2*c.pause), maxContestPause)
		c.until = now.Add(backoff.Jitter(c.pause, contestJitter))
	}
	t.rare = &rare{verdict: t.health(), contest: c}
}

// contested tells that somebody insists on changing the object.
func (t *track) contested(now time.Time) bool {
	c := t.contest()
	return c.count > freeCorrections && now.Sub(c.last) <= contestWindow
}

// correctable is when the object may be corrected next.
func (t *track) correctable(now time.Time) time.Time {
	at := now.Add(gather)
	if until := t.contest().until; until.After(at) {
		return until
	}
	return at
}

// calls tells whether an object needs a run on its own account. While a run applies it, what a watch has seen may be the outcome
// of that; when the run is over, the cluster's answer has said so. u.mu is held.
func (u *unit) calls(k inventory.Key, t *track) bool {
	switch {
	case t.terminating || !t.astray():
		return false
	case t.owed(): // it was being deleted when it was its turn
		return true
	case u.desired.Spec.Policy.Drift == syncpolicy.DriftReport:
		return !u.drifts[k].about(t)
	default:
		return u.desired.Spec.Policy.Drift == syncpolicy.DriftCorrect
	}
}

// notice lets the unit see to an object that others have changed. u.mu is held.
func (u *unit) notice(k inventory.Key, t *track, now time.Time) {
	t.noted = u.runs
	if u.calls(k, t) {
		u.drift = earliest(u.drift, t.correctable(now))
	}
}

// scan returns when objects that others have changed need a run; zero when none does. What the latest run has seen and not
// put right, whatever the reason, is left to the next that takes place anyway. u.mu is held.
func (u *unit) scan(now time.Time) (at time.Time) {
	for k, t := range u.observed.all() {
		held := t.contest().until.After(now)
		if u.calls(k, t) && (held || t.noted == u.runs) {
			at = earliest(at, t.correctable(now))
		}
	}
	return at
}

// undisturbed tells that every object is as the latest run has left it. u.mu is held.
func (u *unit) undisturbed() bool {
	for _, t := range u.observed.all() {
		if !t.seen || t.owed() || t.terminating || t.astray() {
			return false
		}
	}
	return true
}

// earliest is the earlier of two times; the zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// verdict is what a run does about one object.
type verdict int

const (
	keep    verdict = iota // it is as it should be, or left as it is
	install                // apply the manifest
	repair                 // apply the manifest, which is the one that was applied last
	explain                // say what differs
)

// decide compares an object with what is known of it.
func (r *run) decide(o *unstructured.Unstructured, sum fingerprint.Sum) verdict {
	key := inventory.RefOf(o).Key
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	known, listed := r.record.Objects.Get(key)
	t := r.unit.observed.get(key)
	switch {
	case t == nil || !listed || known.UID == "":
		return install
	case t.terminating: // what is applied to it goes with it; its end calls for a run
		if t.Manifest != sum {
			r.unit.owe(t)
		}
		return keep
	case t.Manifest != sum:
		return install
	case t.astray() && r.corrects(t):
		return repair
	case t.astray() && r.service.Spec.Policy.Drift == syncpolicy.DriftReport && !r.unit.drifts[key].about(t):
		return explain
	default:
		return keep
	}
}

// repairs tells whether the manifest of an object is what was applied last, so that a run would take back what others took.
func (r *run) repairs(o *unstructured.Unstructured) bool {
	sum := r.sumOf(o)
	r.unit.mu.Lock()
	defer r.unit.mu.Unlock()
	t := r.unit.observed.get(inventory.RefOf(o).Key)
	return t != nil && t.Manifest == sum
}

// corrects tells whether this run puts right what others have changed: any run that somebody asked for, or that brings
// something new, does; others only where the policy says so. r.unit.mu is held.
func (r *run) corrects(t *track) bool {
	if r.asked || r.news {
		return true
	}
	return r.service.Spec.Policy.Drift == syncpolicy.DriftCorrect && !t.contest().until.After(time.Now())
}

// owe notes that what was applied last is not what the object will be, or has become. u.mu is held.
func (u *unit) owe(t *track) {
	if !t.owed() {
		t.Manifest, u.unsaved = fingerprint.Sum{}, true
	}
}

// load brings back what an earlier process knew. Objects that it knew nothing of are applied again.
func (u *unit) load(ctx context.Context) {
	if u.record.Objects.Len() == 0 {
		return
	}
	table := u.engine.params.Fingerprints.Load(ctx, u.name)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, o := range u.record.Objects.Objects() {
		t := u.observed.of(o.Key)
		t.Kept = table[o.Key]
		u.lost = u.lost || t.owed()
	}
}

// store keeps what is known for the next process. It is called by the unit's goroutine.
func (u *unit) store(ctx context.Context) {
	u.mu.Lock()
	unsaved := u.unsaved
	u.unsaved = false
	var table fingerprint.Table
	if unsaved {
		table = u.observed.table()
	}
	u.mu.Unlock()
	if !unsaved {
		return
	}
	if err := u.engine.params.Fingerprints.Save(context.WithoutCancel(ctx), u.name, table); err != nil {
		u.engine.params.Logger.WarnContext(ctx, "fingerprints cannot be stored, a restart would apply the service again",
			slog.String("leat.service", u.name), slog.Any("error", err))
	}
}
