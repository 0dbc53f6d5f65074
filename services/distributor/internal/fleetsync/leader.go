// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
)

const (
	// tick is how often a replica looks at who leads, and a leader at what people asked for.
	tick = 2 * time.Second
	// beatEvery is how often a leader shows that it lives, and silence how long others wait for that. No
	// clocks are compared: each measures how long the lead has not changed.
	beatEvery = 5 * time.Second
	silence   = 30 * time.Second
	// retryEvery is how often documents are tried again that could not be applied.
	retryEvery = time.Minute
	// atOnce is how many sources are looked at at the same time.
	atOnce = 4
	// gather is how long changes that come together are waited for.
	gather        = 200 * time.Millisecond
	resignTimeout = 5 * time.Second
)

// retryPolicy spaces the looks at a source that cannot be read.
var retryPolicy = backoff.Policy{Initial: 2 * time.Second, Max: time.Minute}

// Params are a Leader's collaborators, all required.
type Params struct {
	Store     Store
	Fleet     Fleet
	Upstream  Upstream
	Bundles   Bundles
	Parser    Parser
	Authority Authority
	// Editor returns an editor of a catalog.
	Editor  func(catalog.Editable) *catalog.Editor
	Objects *fanout.Hub[catalog.Key]
	Metrics *Metrics
	Logger  *slog.Logger
	// Holder names this replica, and no other process ever.
	Holder string
}

// Leader takes part in the election of the leader, and does the leader's work.
type Leader struct {
	p        Params
	isFailed bool
}

// NewLeader returns a Leader.
func NewLeader(p Params) *Leader { return &Leader{p: p} }

// Run works until ctx is done, and returns its cause. While there is no fleet source, nothing is asked
// of the database.
func (l *Leader) Run(ctx context.Context) error {
	var last Lead
	var changed time.Time // when the lead was seen to change
	for {
		if len(l.p.Fleet.FleetSources()) > 0 {
			seen, err := l.p.Store.Lead(ctx)
			if err == nil {
				if seen != last || changed.IsZero() {
					last, changed = seen, time.Now()
				}
				if seen.Holder == "" || time.Since(changed) >= silence {
					err = l.tryLead(ctx, seen)
					changed = time.Time{}
				}
			}
			l.report(ctx, err)
		}
		if err := backoff.Wait(ctx, backoff.Jitter(tick, 0.25)); err != nil {
			return err
		}
	}
}

// report logs the first failure of several, and the success after it.
func (l *Leader) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !l.isFailed:
		l.p.Logger.WarnContext(ctx, "fleet sources wait; trying again", slog.Any("error", err))
	case err == nil && l.isFailed:
		l.p.Logger.InfoContext(ctx, "fleet sources continue")
	}
	l.isFailed = err != nil
}

// tryLead leads if no other replica is faster. It returns when the term has ended.
func (l *Leader) tryLead(ctx context.Context, seen Lead) error {
	term, ok, err := l.p.Store.Claim(ctx, l.p.Holder, seen)
	if err != nil || !ok {
		return err
	}
	l.p.Logger.InfoContext(ctx, "this replica looks at the fleet sources", slog.Int64("term", term))
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { return l.beat(working, term) })
	group.Go(func() error { return l.lead(working, term) })
	if err = group.Wait(); errors.Is(err, errIdle) {
		err = nil
	}
	if !errors.Is(err, ErrDeposed) {
		resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
		defer cancel()
		err = errors.Join(err, l.p.Store.Resign(resigning, term))
	}
	// A leader whose connection broke while it was frozen learns that it is deposed when it resigns.
	if errors.Is(err, ErrDeposed) {
		l.p.Logger.WarnContext(ctx, "another replica looks at the fleet sources now", slog.Int64("term", term))
		return nil
	}
	return err
}

// errIdle ends a term because there is no fleet source any more.
var errIdle = errors.New("there is no fleet source")

// beat shows that the leader lives.
func (l *Leader) beat(ctx context.Context, term int64) error {
	for {
		if err := backoff.Wait(ctx, beatEvery); err != nil {
			return err
		}
		if err := l.p.Store.Beat(ctx, term); err != nil {
			return err
		}
	}
}

// lead does the leader's work until ctx is done, or until the database does not answer.
func (l *Leader) lead(ctx context.Context, term int64) error {
	watcher := l.p.Objects.WatchAll()
	defer watcher.Close()
	w := work{looker: &looker{p: l.p, term: term}, known: map[string]memory{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-watcher.Ready():
		case <-timer.C:
		}
		keys, isLagged := watcher.Take()
		if err := w.round(ctx, keys, isLagged); err != nil {
			return err
		}
		timer.Reset(tick)
		if err := backoff.Wait(ctx, gather); err != nil {
			return err
		}
	}
}

// work is a leader's, between two rounds.
type work struct {
	*looker
	// known is what looks left, by the source's uid.
	known map[string]memory
}

// round looks at the sources that are due.
func (w *work) round(ctx context.Context, keys []catalog.Key, isLagged bool) error {
	sources := w.p.Fleet.FleetSources()
	if len(sources) == 0 {
		return errIdle
	}
	orders, err := w.p.Store.Orders(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	known := make(map[string]memory, len(sources))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	now := time.Now()
	for _, source := range sources {
		last, isKnown := w.known[source.UID]
		order := orders[source.UID]
		if source.Spec.Suspended || isKnown && !w.isDue(source, last, order, keys, isLagged, now) {
			known[source.UID] = last
			continue
		}
		group.Go(func() error {
			next, err := w.look(working, source, last, order)
			mu.Lock()
			defer mu.Unlock()
			known[source.UID] = next
			return err
		})
	}
	err = group.Wait()
	w.known = known
	return err
}

// isDue reports whether a source is to be looked at.
func (w *work) isDue(source *catalog.FleetSource, last memory, order Order, keys []catalog.Key, isLagged bool, now time.Time) bool {
	if last.version != source.ResourceVersion || last.order != order {
		return true
	}
	if last.failures > 0 {
		return !now.Before(last.retryAt)
	}
	every := source.Spec.Every()
	if !last.isWhole {
		every = min(every, retryEvery)
	}
	if now.Sub(last.at) >= every || isLagged {
		return true
	}
	for _, key := range keys {
		if key.Kind == catalog.KindRepository && key.Name == source.Spec.Source.Repository {
			return true
		}
		if version, ok := last.settled[key]; ok && w.p.Fleet.Version(key) != version {
			return true
		}
	}
	return false
}
