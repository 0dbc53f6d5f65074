// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

const (
	// tick is how often a leader reads people's requests.
	tick = 2 * time.Second
	// retryEvery is how often documents are tried again that could not be applied.
	retryEvery = time.Minute
	// atOnce is how many sources are read at the same time.
	atOnce = 4
	// gather is how long changes that come together are waited for.
	gather = 200 * time.Millisecond
)

// retryPolicy spaces the attempts to read a source that fails.
var retryPolicy = backoff.Policy{Initial: 2 * time.Second, Max: time.Minute}

// Params are a Leader's collaborators, all required.
type Params struct {
	Store     Store
	Election  election.Store
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
type Leader struct{ p Params }

// NewLeader returns a Leader.
func NewLeader(p Params) *Leader { return &Leader{p: p} }

// Run works until ctx is done, and returns its cause. While there is no fleet source, nothing is asked
// of the database.
func (l *Leader) Run(ctx context.Context) error {
	return election.Run(ctx, election.Params{
		Store: l.p.Election, Holder: l.p.Holder, Logger: l.p.Logger, Subject: "fleet sources", Work: "looks at the fleet sources",
		IsNeeded: func() bool { return len(l.p.Fleet.FleetSources()) > 0 }, Lead: l.lead,
	})
}

// lead does the leader's work until ctx is done, until the database does not answer, or until there is
// no fleet source any more.
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
		sources := l.p.Fleet.FleetSources()
		if len(sources) == 0 {
			return nil
		}
		if err := w.round(ctx, sources, keys, isLagged); err != nil {
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
	// known is the memory of looks, by the source's uid.
	known map[string]memory
}

// round reads the due sources.
func (w *work) round(ctx context.Context, sources []*catalog.FleetSource, keys []catalog.Key, isLagged bool) error {
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
		if source.Spec.Suspension().At(now) || isKnown && !w.isDue(source, last, order, keys, isLagged, now) {
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

// isDue reports whether a source is due.
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
