// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/wake"
)

// Why a tenure ends.
var (
	errGone     = errors.New("the cluster is not dialled any more")
	errMoved    = errors.New("another replica should dial")
	errDraining = errors.New("the replica ends")
)

// tenure is the time in which this replica dials one cluster.
type tenure struct {
	keeper *Keeper
	uid    string      // of the cluster
	wake   wake.Signal // one token when the facts of the cluster have changed
	done   chan struct{}

	stop    context.CancelCauseFunc // ends the tenure; only the first reason counts
	stopped <-chan struct{}         // closed when the tenure is to end
	why     func() error            // returns the reason then

	mu      sync.Mutex
	cluster Cluster
	conn    Conn   // the latest; nil before
	failed  Reason // of the last attempt; empty when it succeeded
	up      bool   // the latest connection lives
}

func newTenure(k *Keeper, c Cluster) *tenure {
	wanted, stop := context.WithCancelCause(context.Background())
	return &tenure{
		keeper: k, uid: c.UID, cluster: c, wake: wake.NewSignal(), done: make(chan struct{}),
		stop: stop, stopped: wanted.Done(), why: func() error { return context.Cause(wanted) },
	}
}

// update has the agent dialled again if its address or its key has changed.
func (t *tenure) update(ctx context.Context, c Cluster) {
	t.mu.Lock()
	same, conn := t.cluster.equal(c), t.conn
	t.cluster = c
	t.mu.Unlock()
	if same {
		return
	}
	t.wake.Set()
	if conn != nil {
		t.keeper.running.Go(func() { leave(ctx, conn) })
	}
}

// run dials until the tenure is stopped or ctx is done.
func (t *tenure) run(ctx context.Context) {
	defer close(t.done)
	holding, release := context.WithCancel(ctx)
	defer release()
	t.keeper.running.Go(func() {
		t.await(holding)
		release()
	})
	t.keeper.apart.Add(1)
	t.hold(ctx, holding)
	release()
	select {
	case <-t.stopped:
		t.farewell(ctx)
	default: // the keeper ends
	}
	t.leave(ctx)
	t.mark(true) // it is not missed any more
}

// await returns when the lease is to be given up.
func (t *tenure) await(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-t.stopped:
	}
	if !errors.Is(t.why(), errGone) { // whose connection is to end now
		_ = t.keeper.ends.Wait(ctx) // many may be given up at once
	}
}

// farewell waits until the connection is not needed any more.
func (t *tenure) farewell(ctx context.Context) {
	switch {
	case errors.Is(t.why(), errMoved): // until the other one is connected, requests come here
		_ = backoff.Wait(ctx, handover)
	case errors.Is(t.why(), errDraining): // the table lets requests end; the agent's own calls continue meanwhile
		<-ctx.Done()
	}
}

// leave lets go of the connection.
func (t *tenure) leave(ctx context.Context) {
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		leave(ctx, conn)
	}
}

func leave(ctx context.Context, conn Conn) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	conn.Leave(ctx)
}

// hold connects as long as this replica holds the lease and holding lasts; connections last as long
// as life.
func (t *tenure) hold(life, holding context.Context) {
	if t.keeper.leases == nil {
		t.connect(life, holding)
		return
	}
	p := lease.KeeperParams{Store: t.keeper.leases, Key: leaseKey(t.uid), Owner: t.keeper.params.Self, TTL: leaseTTL}
	_ = lease.Hold(holding, p,
		func(held context.Context, _ *lease.Held) error {
			t.connect(life, held)
			return context.Cause(held)
		})
}

// connect keeps the agent connected until held is done, and leaves the connection alone then. One
// from before is gone on with.
func (t *tenure) connect(life, held context.Context) {
	for attempt := 0; held.Err() == nil; attempt++ {
		began := time.Now()
		conn := t.current()
		if conn == nil {
			conn = t.dial(held)
		}
		if conn != nil {
			select {
			case <-conn.Done():
				t.mark(false)
				t.keeper.running.Go(func() { leave(life, conn) })
			case <-held.Done():
				return
			}
		}
		if time.Since(began) >= stable {
			attempt = 0
		}
		if t.rest(held, t.keeper.pause.Delay(attempt)) {
			attempt = -1
		}
	}
}

// current returns the connection, unless it has ended.
func (t *tenure) current() Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || wake.IsClosed(t.conn.Done()) {
		return nil
	}
	return t.conn
}

// rest pauses, and reports whether something has changed that makes another attempt worth it.
func (t *tenure) rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-t.wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// dial makes one attempt, and returns nil when it fails.
func (t *tenure) dial(ctx context.Context) Conn {
	if t.keeper.dials.Wait(ctx) != nil {
		return nil
	}
	t.mu.Lock()
	c := t.cluster
	t.mu.Unlock()
	conn, err := t.keeper.params.Dialer.Dial(ctx, c)
	if ctx.Err() == nil {
		t.note(ctx, c, err)
	}
	if err != nil {
		return nil
	}
	t.mu.Lock()
	t.conn = conn
	stale := !t.cluster.equal(c)
	t.mu.Unlock()
	t.mark(true)
	if stale { // the update came too early to see the connection
		leave(ctx, conn)
	}
	return conn
}

// mark counts the agents that are apart.
func (t *tenure) mark(up bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if up != t.up {
		t.up = up
		if up {
			t.keeper.apart.Add(-1)
		} else {
			t.keeper.apart.Add(1)
		}
	}
}

// note counts an attempt, and logs it when it comes out otherwise than the last one.
func (t *tenure) note(ctx context.Context, c Cluster, err error) {
	var reason Reason
	if failure, ok := errors.AsType[*Failure](err); ok {
		reason = failure.Reason
	}
	t.keeper.meters.dialled(ctx, reason)
	t.mu.Lock()
	before := t.failed
	t.failed = reason
	t.mu.Unlock()
	attrs := []any{
		slog.String("leat.cluster", c.Name), slog.String("leat.cluster.uid", c.UID), slog.String("server.address", c.Endpoint),
	}
	switch {
	case err != nil && reason != before:
		t.keeper.params.Logger.WarnContext(ctx, "agent cannot be dialled, trying again", append(attrs, slog.Any("error", err))...)
	case err == nil && before != "":
		t.keeper.params.Logger.InfoContext(ctx, "agent can be dialled again", attrs...)
	}
}
