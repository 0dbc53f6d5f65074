// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// presenceGrace is how long after it became the leader a replica does not believe that an agent is
// gone: agents need a while to come back after a restart of the hub.
const presenceGrace = 2 * time.Minute

// maxStep bounds the objects that are read before their messages are stored.
const maxStep = 2000

// observedKinds are those whose states are followed.
func observedKinds() []catalog.Kind { return slices.Concat(announcedKinds, standingKinds()) }

// Observer follows the states of objects for one term. It is for one goroutine.
type Observer struct {
	store  Store
	fleet  Fleet
	term   int64
	began  time.Time
	since  time.Time
	states map[string]State
	ids    map[catalog.Key]string // of the objects with a state
	// holding are the objects with failures that are not told yet.
	holding map[catalog.Key]struct{}
}

// NewObserver returns an Observer that continues what the leader before it did. now is when the term
// began.
func NewObserver(ctx context.Context, store Store, fleet Fleet, term int64, now time.Time) (*Observer, error) {
	ledger, err := store.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	return &Observer{
		store: store, fleet: fleet, term: term, began: now, since: ledger.Since, states: ledger.States,
		ids: map[catalog.Key]string{}, holding: map[catalog.Key]struct{}{},
	}, nil
}

// LookAtAll compares all objects of the kinds with the memory. The first look of all finds when the
// first notifier was made: of objects that are older, only later changes are reported.
func (o *Observer) LookAtAll(ctx context.Context, now time.Time, kinds ...catalog.Kind) error {
	if o.since.IsZero() {
		since := now
		for _, n := range o.fleet.Notifiers() {
			if n.CreatedAt.Before(since) {
				since = n.CreatedAt
			}
		}
		if err := o.store.Save(ctx, o.term, Batch{Since: since}); err != nil {
			return err
		}
		o.since = since
	}
	return o.LookAt(ctx, now, o.fleet.Keys(kinds...))
}

// Forgetful removes the states of objects that no longer exist, after a comparison of all of them.
func (o *Observer) Forgetful(ctx context.Context) error {
	known := map[string]struct{}{}
	for key, id := range o.ids {
		if seen, ok := o.fleet.See(key); ok && seen.ID == id {
			known[id] = struct{}{}
		} else {
			delete(o.ids, key)
			delete(o.holding, key)
		}
	}
	var gone []string
	for id := range o.states {
		if _, ok := known[id]; !ok {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := o.store.Save(ctx, o.term, Batch{Gone: gone}); err != nil {
		return err
	}
	for _, id := range gone {
		delete(o.states, id)
	}
	return nil
}

// LookAtHeld tells the failures that have lasted long enough.
func (o *Observer) LookAtHeld(ctx context.Context, now time.Time) error {
	var keys []catalog.Key
	for key := range o.holding {
		for _, held := range o.states[o.ids[key]].Held {
			if !now.Before(held.Due) {
				keys = append(keys, key)
				break
			}
		}
	}
	return o.LookAt(ctx, now, keys)
}

// LookAt compares objects with the memory of them, and stores the changes with the messages about
// them. After an error nothing of the step that failed is remembered, so the next look finds it
// again.
func (o *Observer) LookAt(ctx context.Context, now time.Time, keys []catalog.Key) error {
	if len(keys) == 0 {
		return nil
	}
	notifiers := o.fleet.Notifiers()
	for len(keys) > 0 {
		step := keys[:min(len(keys), maxStep)]
		keys = keys[len(step):]
		if err := o.step(ctx, now, step, notifiers); err != nil {
			return err
		}
	}
	return nil
}

func (o *Observer) step(ctx context.Context, now time.Time, keys []catalog.Key, notifiers []*catalog.Notifier) error {
	changed, ids := map[string]State{}, map[catalog.Key]string{}
	var told []Told
	for _, key := range keys {
		seen, ok := o.see(key, now)
		if !ok {
			continue
		}
		last, isKnown := o.states[seen.ID]
		next, events := Step(last, seen, now, notifiers, rand.Text)
		if !isKnown && seen.CreatedAt.Before(o.since) {
			next, events = Baseline(seen), nil // it was there before there was a notifier
		}
		told = append(told, events...)
		if ids[key] = seen.ID; !isKnown || !reflect.DeepEqual(last, next) {
			changed[seen.ID] = next
		}
	}
	if len(changed) > 0 || len(told) > 0 {
		if err := o.store.Save(ctx, o.term, Batch{States: changed, Added: Gather(told, now, rand.Text)}); err != nil {
			return err
		}
	}
	maps.Copy(o.states, changed)
	maps.Copy(o.ids, ids)
	for key, id := range ids {
		if len(o.states[id].Held) > 0 {
			o.holding[key] = struct{}{}
		} else {
			delete(o.holding, key)
		}
	}
	return nil
}

// see returns the view of an object, without what a leader cannot know yet.
func (o *Observer) see(key catalog.Key, now time.Time) (Seen, bool) {
	seen, ok := o.fleet.See(key)
	if seen.Class == Disconnected && now.Sub(o.began) < presenceGrace {
		seen.Class = Unknown
	}
	return seen, ok
}
