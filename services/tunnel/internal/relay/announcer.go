// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

const (
	// batch is how many routes are written at once, and pace the mean time between two writes:
	// their quotient bounds what one replica asks of the store, whatever happens.
	batch = 100
	pace  = 50 * time.Millisecond
	// RouteAge is how long the store keeps a route that is not published again, and refreshAge the
	// mean time until it is.
	RouteAge   = 15 * time.Minute
	refreshAge = 5 * time.Minute
	// LivenessAge is how long a replica counts after a sign of life, and renewEvery the mean time
	// between two.
	LivenessAge = 30 * time.Second
	renewEvery  = 10 * time.Second
	// spreadAge is over how long replicas spread the beginning of publishing everything again.
	spreadAge = 2 * time.Second
)

// announcer keeps the store in step with the sessions of this replica. Writes are noted at once and
// carried out by one goroutine, in batches; no caller waits for them.
type announcer struct {
	store  Store
	self   Replica
	logger *slog.Logger
	wake   wake.Signal // holds a token when there is something to write
	// replicas is how many replicas there are.
	replicas atomic.Int64

	mu     sync.Mutex
	rows   map[*session.Session]*row
	queue  []*session.Session // to publish, each at most once
	leave  []Route            // to withdraw
	failed bool               // the store does not answer
}

// row is a route of this replica on its way into the store. It is protected by the announcer's
// lock.
type row struct {
	route  Route
	queued bool
	sent   bool      // may be in the store
	due    time.Time // when it is published again
}

func newAnnouncer(store Store, self Replica, logger *slog.Logger) *announcer {
	a := &announcer{store: store, self: self, logger: logger, wake: wake.NewSignal(), rows: map[*session.Session]*row{}}
	a.replicas.Store(1)
	return a
}

// added notes a new session.
func (a *announcer) added(s *session.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	info := s.Info()
	a.rows[s] = &row{queued: true, route: Route{
		ID: a.self.ID + "." + strconv.FormatUint(s.Epoch(), 36), Cluster: info.Cluster, ClusterUID: info.ClusterUID,
		Connection: info.ID, Replica: a.self,
	}}
	a.queue = append(a.queue, s)
	a.wake.Set()
}

// removed notes the end of a session. A session that was never written needs no withdrawal.
func (a *announcer) removed(s *session.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.rows[s]
	if !ok {
		return
	}
	delete(a.rows, s) // from the queue it is skipped
	if r.sent {
		a.leave = append(a.leave, r.route)
		a.wake.Set()
	}
}

// run writes until ctx ends, and then announces that this replica is gone, which voids all of its
// routes in one write.
func (a *announcer) run(ctx context.Context) {
	var renewing sync.WaitGroup
	begun := make(chan struct{})
	renewing.Go(func() { a.renewAlways(ctx, begun) })
	select {
	case <-begun: // a route without a living replica is no route
		a.writeAlways(ctx)
	case <-ctx.Done():
	}
	renewing.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := a.store.Leave(ctx, a.self); err != nil {
		a.logger.WarnContext(ctx, "other replicas not told of the end; they notice soon", slog.Any("error", err))
	}
}

// renewAlways gives signs of life. The channel is closed with the first one.
func (a *announcer) renewAlways(ctx context.Context, begun chan<- struct{}) {
	for first := true; ctx.Err() == nil; {
		kept, err := a.renew(ctx)
		a.note(ctx, err)
		wait := renewEvery
		switch {
		case err != nil:
			wait = time.Second
		case first:
			close(begun)
			first = false
		case !kept:
			// All replicas notice at about the same time.
			_ = backoff.Wait(ctx, backoff.Policy{Initial: spreadAge, Max: spreadAge}.Delay(0))
			a.again(func(*row) bool { return true })
		default:
			now := time.Now()
			a.again(func(r *row) bool { return now.After(r.due) })
		}
		_ = backoff.Wait(ctx, backoff.Jitter(wait, 0.25)) // the loop checks ctx
	}
}

func (a *announcer) renew(ctx context.Context) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if kept, err = a.store.Renew(ctx, a.self); err != nil {
		return kept, err
	}
	replicas, err := a.store.Replicas(ctx)
	if err == nil {
		a.replicas.Store(int64(max(len(replicas), 1)))
	}
	return kept, err
}

// again notes that routes that were written have to be written again.
func (a *announcer) again(which func(*row) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, r := range a.rows {
		if r.sent && !r.queued && which(r) {
			r.queued = true
			a.queue = append(a.queue, s)
		}
	}
	a.wake.Set()
}

// writeAlways writes batch after batch, as long as there is something to write, and never faster
// than the pace.
func (a *announcer) writeAlways(ctx context.Context) {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		for attempt := 0; ; {
			more, err := a.write(ctx)
			wait := backoff.Jitter(pace, 0.5)
			if err != nil {
				wait += backoff.Policy{Max: 5 * time.Second}.Delay(attempt)
				attempt++
			}
			if backoff.Wait(ctx, wait) != nil {
				return
			}
			if !more {
				break
			}
		}
	}
}

// write writes one batch, and reports whether there is more to write.
func (a *announcer) write(ctx context.Context) (more bool, err error) {
	sessions, publish, withdraw := a.take()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if len(withdraw) > 0 {
		if err = a.store.Withdraw(ctx, withdraw); err != nil {
			a.giveBack(sessions, withdraw)
			a.note(ctx, err)
			return true, err
		}
	}
	if len(publish) > 0 {
		epochs, err := a.store.Publish(ctx, publish)
		if err != nil {
			a.giveBack(sessions, nil)
			a.note(ctx, err)
			return true, err
		}
		a.published(sessions, epochs)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue) > 0 || len(a.leave) > 0, nil
}

// take returns a batch. Its routes count as written from now on, because a write that fails may
// have been done.
func (a *announcer) take() (sessions []*session.Session, publish, withdraw []Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(batch, len(a.leave))
	withdraw, a.leave = a.leave[:n:n], a.leave[n:]
	for len(a.queue) > 0 && len(publish)+n < batch {
		s := a.queue[0]
		a.queue = a.queue[1:]
		if r, ok := a.rows[s]; ok {
			r.queued, r.sent = false, true
			sessions, publish = append(sessions, s), append(publish, r.route)
		}
	}
	return sessions, publish, withdraw
}

// giveBack notes again what was not written for certain.
func (a *announcer) giveBack(sessions []*session.Session, withdraw []Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leave = append(withdraw, a.leave...)
	for _, s := range sessions {
		if r, ok := a.rows[s]; ok && !r.queued {
			r.queued = true
			a.queue = append(a.queue, s)
		}
	}
}

func (a *announcer) published(sessions []*session.Session, epochs []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for i, s := range sessions {
		if r, ok := a.rows[s]; ok {
			r.route.Epoch = epochs[i]
			r.due = now.Add(backoff.Jitter(refreshAge, 0.5))
		}
	}
}

// note logs when the store goes away and when it is back.
func (a *announcer) note(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil && !a.failed && ctx.Err() == nil:
		a.logger.WarnContext(ctx, "routes are not shared with other replicas", slog.Any("error", err))
	case err == nil && a.failed:
		a.logger.InfoContext(ctx, "routes are shared with other replicas again")
	case err != nil:
		return
	}
	a.failed = err != nil
}
