// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

const (
	// tick is how often a leader looks again.
	tick = time.Second
	// clustersEvery is how often all clusters are read: the silence of an agent is not announced.
	// allEvery is how often everything is.
	clustersEvery = 15 * time.Second
	allEvery      = 5 * time.Minute
	// learnEvery is how often the states of what services follow from are read.
	learnEvery = 5 * time.Second
	// ageEvery is how often the oldest message that waits is looked for, for a metric.
	ageEvery = 15 * time.Second
)

// Params are a Dispatcher's collaborators, all required.
type Params struct {
	Store    Store
	Election election.Store
	Fleet    Fleet
	Sink     Sink
	Objects  *fanout.Hub[catalog.Key]
	Metrics  *Metrics
	Logger   *slog.Logger
	// Holder names this replica, and no other process ever.
	Holder string
}

// Dispatcher takes part in the election of the leader, and does the leader's work.
type Dispatcher struct{ p Params }

// NewDispatcher returns a Dispatcher.
func NewDispatcher(p Params) *Dispatcher { return &Dispatcher{p: p} }

// Run works until ctx is done, and returns its cause. While there is no notifier, nothing is asked of
// the database.
func (d *Dispatcher) Run(ctx context.Context) error {
	return election.Run(ctx, election.Params{
		Store: d.p.Election, Holder: d.p.Holder, Logger: d.p.Logger, Subject: "notifications", Work: "sends the notifications",
		IsNeeded: func() bool { return len(d.p.Fleet.Notifiers()) > 0 }, Lead: d.lead,
	})
}

// lead does the leader's work until ctx is done, or until the database does not answer.
func (d *Dispatcher) lead(ctx context.Context, term int64) error {
	d.p.Metrics.leads(true)
	defer d.p.Metrics.leads(false)
	ctx, cancel := context.WithCancel(ctx)
	woken := wake.NewSignal()
	sender := NewSender(d.p, term, woken.Set)
	defer sender.Wait()
	defer cancel()
	observer, err := NewObserver(ctx, d.p.Store, d.p.Fleet, term, time.Now())
	if err != nil {
		return err
	}
	watcher := d.p.Objects.WatchAll()
	defer watcher.Close()
	w := work{observer: observer, sender: sender, store: d.p.Store, metrics: d.p.Metrics, term: term, fleet: d.p.Fleet}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Ready():
		case <-woken:
		case <-timer.C:
		}
		keys, isLagged := watcher.Take()
		pause, err := w.round(ctx, keys, isLagged)
		if err != nil {
			return err
		}
		if pause < 0 {
			return nil // there is no notifier any more
		}
		timer.Reset(pause)
		// Simultaneous changes are read together.
		if err := backoff.Wait(ctx, tick/5); err != nil {
			return nil // the hub stops
		}
	}
}

// NewSender returns a Sender for a term. settled is called after each attempt.
func NewSender(p Params, term int64, settled func()) *Sender {
	return &Sender{
		store: p.Store, fleet: p.Fleet, sink: p.Sink, metrics: p.Metrics, logger: p.Logger, term: term, now: time.Now,
		settled: settled, routes: map[string]*route{},
	}
}

// work is a leader's, between two rounds.
type work struct {
	observer *Observer
	sender   *Sender
	store    Store
	metrics  *Metrics
	fleet    Fleet
	term     int64
	// all and clusters are when they were last read.
	all, clusters time.Time
	// learned is when the states that the database has were last read.
	learned time.Time
	// aged is when the oldest message that waits was last looked for.
	aged time.Time
}

// round carries out due work, and returns when to look again; a negative time means that nothing is
// left to do.
func (w *work) round(ctx context.Context, keys []catalog.Key, isLagged bool) (pause time.Duration, err error) {
	now := time.Now()
	if len(w.fleet.Notifiers()) == 0 {
		return -1, w.store.Forget(ctx, w.term)
	}
	if now.Sub(w.learned) >= learnEvery {
		if err := w.fleet.Learn(ctx); err != nil {
			return 0, err
		}
		if err := w.observer.LookAtAll(ctx, now, standingKinds()...); err != nil {
			return 0, err
		}
		w.learned = now
	}
	if isLagged || w.all.IsZero() || now.Sub(w.all) >= allEvery {
		if err := w.observer.LookAtAll(ctx, now, observedKinds()...); err != nil {
			return 0, err
		}
		if err := w.observer.Forgetful(ctx); err != nil {
			return 0, err
		}
		w.all, w.clusters = now, now
	} else if err := w.observer.LookAt(ctx, now, observed(keys)); err != nil {
		return 0, err
	}
	if now.Sub(w.clusters) >= clustersEvery {
		if err := w.observer.LookAtAll(ctx, now, catalog.KindCluster); err != nil {
			return 0, err
		}
		w.clusters = now
	}
	if err := w.observer.LookAtHeld(ctx, now); err != nil {
		return 0, err
	}
	if _, err := w.sender.Pass(ctx); err != nil {
		return 0, err
	}
	return tick, w.age(ctx, now)
}

// age measures the oldest message that waits.
func (w *work) age(ctx context.Context, now time.Time) error {
	if now.Sub(w.aged) < ageEvery {
		return nil
	}
	oldest, err := w.store.Oldest(ctx)
	if err != nil {
		return err
	}
	w.metrics.setOldest(oldest)
	w.aged = now
	return nil
}

// observed returns the keys of objects whose states are read when a change of them is announced.
func observed(keys []catalog.Key) []catalog.Key {
	var kept []catalog.Key
	for _, key := range keys {
		if slices.Contains(announcedKinds, key.Kind) {
			kept = append(kept, key)
		}
	}
	return kept
}
