// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/wake"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
)

const (
	// lookEvery is how often a replica that does not lead looks at who does.
	lookEvery = 2 * time.Second
	// beatEvery is how often a leader shows that it lives, and silence how long others wait for that.
	// No clocks are compared: each measures how long the lead has not changed.
	beatEvery = 5 * time.Second
	silence   = 30 * time.Second
	tick      = time.Second
	// clustersEvery is how often all clusters are looked at: an agent that falls silent notifies
	// nobody. allEvery is how often everything is.
	clustersEvery = 15 * time.Second
	allEvery      = 5 * time.Minute
	// learnEvery is how often the states of what services follow from are read.
	learnEvery = 5 * time.Second
)

// Params are a Dispatcher's collaborators, all required.
type Params struct {
	Store   Store
	Fleet   Fleet
	Sink    Sink
	Objects *fanout.Hub[catalog.Key]
	Metrics *Metrics
	Logger  *slog.Logger
	// Holder names this replica, and no other process ever.
	Holder string
}

// Dispatcher takes part in the election of the leader, and does the leader's work.
type Dispatcher struct {
	p        Params
	isFailed bool
}

// NewDispatcher returns a Dispatcher.
func NewDispatcher(p Params) *Dispatcher { return &Dispatcher{p: p} }

// Run works until ctx is done, and returns its cause. While there is no notifier, nothing is asked of
// the database.
func (d *Dispatcher) Run(ctx context.Context) error {
	var last Lead
	var changed time.Time // when the lead was seen to change
	for {
		if len(d.p.Fleet.Notifiers()) > 0 {
			seen, err := d.p.Store.Lead(ctx)
			if err == nil {
				if seen != last || changed.IsZero() {
					last, changed = seen, time.Now()
				}
				if seen.Holder == "" || time.Since(changed) >= silence {
					err = d.tryLead(ctx, seen)
					changed = time.Time{}
				}
			}
			d.report(ctx, err)
		}
		if err := backoff.Wait(ctx, backoff.Jitter(lookEvery, 0.25)); err != nil {
			return err
		}
	}
}

// report logs the first failure of several, and the success after it.
func (d *Dispatcher) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !d.isFailed:
		d.p.Logger.WarnContext(ctx, "notifications wait; trying again", slog.Any("error", err))
	case err == nil && d.isFailed:
		d.p.Logger.InfoContext(ctx, "notifications continue")
	}
	d.isFailed = err != nil
}

// tryLead leads if no other replica is faster. It returns when the term has ended.
func (d *Dispatcher) tryLead(ctx context.Context, seen Lead) error {
	term, ok, err := d.p.Store.Claim(ctx, d.p.Holder, seen)
	if err != nil || !ok {
		return err
	}
	d.p.Logger.InfoContext(ctx, "this replica sends the notifications", slog.Int64("term", term))
	d.p.Metrics.leads(true)
	defer d.p.Metrics.leads(false)
	err = d.lead(ctx, term)
	if errors.Is(err, ErrDeposed) {
		d.p.Logger.WarnContext(ctx, "another replica sends the notifications now", slog.Int64("term", term))
		return nil
	}
	resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return errors.Join(err, d.p.Store.Resign(resigning, term))
}

// lead does the leader's work until ctx is done, or until the database does not answer.
func (d *Dispatcher) lead(ctx context.Context, term int64) error {
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
	w := work{observer: observer, sender: sender, store: d.p.Store, term: term, fleet: d.p.Fleet, beat: time.Now()}
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
		// What changes at once is looked at together.
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
	fleet    Fleet
	term     int64
	// beat is when the lead was last confirmed, all and clusters when they were last looked at.
	beat, all, clusters time.Time
	// learned is when the states that the database has were last read.
	learned time.Time
}

// round does what is due, and returns when to look again; a negative time says that there is nothing
// to do any more.
func (w *work) round(ctx context.Context, keys []catalog.Key, isLagged bool) (pause time.Duration, err error) {
	now := time.Now()
	if len(w.fleet.Notifiers()) == 0 {
		return -1, w.store.Forget(ctx, w.term)
	}
	if now.Sub(w.beat) >= beatEvery {
		if err := w.store.Beat(ctx, w.term); err != nil {
			return 0, err
		}
		w.beat = now
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
	return tick, nil
}

// observed returns the keys of objects whose states are followed.
func observed(keys []catalog.Key) []catalog.Key {
	var kept []catalog.Key
	for _, key := range keys {
		switch key.Kind { //nolint:exhaustive // the others have no state
		case catalog.KindCluster, catalog.KindRepository, catalog.KindService:
			kept = append(kept, key)
		}
	}
	return kept
}
