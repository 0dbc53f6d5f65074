// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
)

const (
	defaultTTL = 15 * time.Second
	// maxWait bounds the wait for a lease that another owner holds: it may be released long before
	// it would expire.
	maxWait = 3 * time.Second
	// releaseTimeout bounds the last call of a holder that is leaving. Without an answer the lease
	// expires.
	releaseTimeout = 2 * time.Second
)

// KeeperParams sets which lease [Hold] holds, and how.
type KeeperParams struct {
	// Store, Key and Owner identify the lease and its owner; see AcquireParams. Required.
	Store Store
	Key   string
	Owner string
	// TTL is how long the lease outlives its last renewal, and thus how long others wait after a
	// holder has died. Zero: 15 s.
	TTL time.Duration
	// RenewEvery is the time between renewals. Zero: TTL/3, so that two renewals may fail before
	// the lease is lost.
	RenewEvery time.Duration
	// MinEpoch is the highest epoch that the caller remembers. Hold itself remembers those it sees.
	// Zero: none.
	MinEpoch uint64
	// Backoff spaces the retries while the store fails. The zero policy: 100 ms growing to a fifth
	// of TTL.
	Backoff backoff.Policy
	// Wake makes a waiting Hold ask for the lease at once, because the caller was notified that it
	// is free. Nil: Hold only polls.
	Wake <-chan struct{}
	// Logger records leases won and lost, and a store that does not answer. Nil: nothing is logged.
	Logger *slog.Logger
}

func (p KeeperParams) withDefaults() KeeperParams {
	p.TTL = cmp.Or(max(p.TTL, 0), defaultTTL)
	p.RenewEvery = cmp.Or(max(p.RenewEvery, 0), p.TTL/3)
	p.Backoff = cmp.Or(p.Backoff, backoff.Policy{Initial: 100 * time.Millisecond, Max: max(p.TTL/5, time.Millisecond)})
	p.Logger = cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	p.Logger = p.Logger.With(slog.String("lease.key", p.Key), slog.String("lease.owner", p.Owner))
	return p
}

// Hold runs work while it holds the lease, and runs it again whenever it has lost the lease and
// acquired it again.
//
// It waits until the lease is free, acquires it, calls work, and renews the lease until work
// returns. The context of work is cancelled, with a cause that matches [ErrLost], as soon as the
// lease is known to be lost or its deadline passes without renewal, however long the store takes to
// answer. It is also cancelled when ctx is. Hold then waits for work to return, for as long as that
// takes: it never acquires the lease again, nor returns, while work is running. At any time one
// Hold therefore runs at most one work, and no other holder's work starts before the deadline of
// this one's lease.
//
// When work returns while the lease is held, Hold releases it and returns the result of work. A
// result that comes after the lease was lost, even success, is dropped, because another holder may
// have begun the same work by then. When ctx is done, Hold returns its cause. Hold returns an error
// at once for params that no store accepts.
func Hold(ctx context.Context, p KeeperParams, work func(ctx context.Context, held *Held) error) error {
	k := &keeper{params: p.withDefaults(), work: work}
	k.minEpoch = k.params.MinEpoch
	if err := k.acquireParams().Check(); err != nil {
		return err
	}
	for {
		l, err := k.acquire(ctx)
		if err != nil {
			return err
		}
		result, lost := k.tenure(ctx, l)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !lost {
			return result
		}
	}
}

// keeper is the state of one call of Hold. Only the goroutine of that call uses it.
type keeper struct {
	params   KeeperParams
	work     func(context.Context, *Held) error
	minEpoch uint64 // the highest epoch seen
	reclaim  bool   // the store has forgotten a lease that this keeper held
}

func (k *keeper) acquireParams() AcquireParams {
	return AcquireParams{Key: k.params.Key, Owner: k.params.Owner, TTL: k.params.TTL, MinEpoch: k.minEpoch, Grace: k.params.TTL, Reclaim: k.reclaim}
}

// acquire asks for the lease until it gets it or ctx is done.
func (k *keeper) acquire(ctx context.Context) (Lease, error) {
	failures := 0
	for {
		l, err := k.acquireOnce(ctx)
		if err == nil {
			return l, nil
		}
		var wait time.Duration
		if held, ok := errors.AsType[*HeldError](err); ok {
			k.minEpoch = max(k.minEpoch, held.Epoch)
			k.reclaim = k.reclaim && held.Owner == ""
			failures = 0
			// Wait slightly longer, so that the lease is over, and jitter it, so that not all
			// waiters ask at once.
			wait = min(held.Remaining+backoff.Jitter(k.params.TTL/50, 1), backoff.Jitter(maxWait, 0.25))
		} else {
			if failures == 0 && ctx.Err() == nil {
				k.params.Logger.LogAttrs(ctx, slog.LevelWarn, "lease store does not answer", slog.Any("error", err))
			}
			wait = k.params.Backoff.Delay(failures)
			failures++
		}
		if err := wake.Await(ctx, k.params.Wake, wait); err != nil {
			return Lease{}, err
		}
	}
}

// acquireOnce asks once. A lease that is over when the answer arrives is released and reported as
// lost.
func (k *keeper) acquireOnce(ctx context.Context) (Lease, error) {
	asking, cancel := context.WithTimeout(ctx, k.params.TTL)
	defer cancel()
	l, err := k.params.Store.Acquire(asking, k.acquireParams())
	if err != nil {
		return Lease{}, err
	}
	k.minEpoch, k.reclaim = max(k.minEpoch, l.Epoch), false
	if l.Expired(time.Now()) {
		k.release(ctx, l)
		return Lease{}, fmt.Errorf("acquire %q: the answer took longer than the lease lasts: %w", l.Key, ErrLost)
	}
	k.params.Logger.LogAttrs(ctx, slog.LevelInfo, "lease acquired", slog.Uint64("lease.epoch", l.Epoch))
	return l, nil
}

// tenure runs work once under the lease, and returns when work has returned. lost reports whether
// the lease was lost before that.
func (k *keeper) tenure(ctx context.Context, l Lease) (result error, lost bool) {
	held := &Held{lease: l}
	working, cancel := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() { done <- k.work(working, held) }()

	// Renewal continues while work shuts down after ctx is done: until work has returned no other
	// holder may begin.
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		k.renew(renewing, held)
	}()

	result, ended := watch(held, done, renewed)
	reason := held.Check()
	cancel(reason)
	stop()
	if reason != nil {
		k.params.Logger.LogAttrs(ctx, slog.LevelWarn, "lease lost",
			slog.Uint64("lease.epoch", l.Epoch), slog.Any("error", reason))
	}
	if !ended {
		result = k.awaitWork(ctx, held, done)
	}
	<-renewed
	held.lose(fmt.Errorf("%q at epoch %d: released: %w", l.Key, l.Epoch, ErrLost))
	// Release the lease even when it was lost: the store may have extended it with its answer on
	// the way, and this holder no longer uses it.
	k.giveBack(ctx, l, held)
	return result, reason != nil
}

// watch blocks until work is done or the lease is lost. ended reports that work is done, with the
// result.
func watch(held *Held, done <-chan error, renewed <-chan struct{}) (result error, ended bool) {
	for held.Check() == nil {
		deadline := time.NewTimer(time.Until(held.Lease().Deadline))
		select {
		case result = <-done:
			deadline.Stop()
			return result, true
		case <-renewed: // renewal has given up
			deadline.Stop()
			renewed = nil
		case <-deadline.C: // passed, or moved by a renewal
		}
	}
	return nil, false
}

// renew keeps the lease alive until ctx is done or the lease is lost.
func (k *keeper) renew(ctx context.Context, held *Held) {
	failures := 0
	wait := k.params.RenewEvery
	for backoff.Wait(ctx, wait) == nil && held.Check() == nil {
		err := k.renewOnce(ctx, held)
		switch {
		case err == nil:
			wait, failures = k.params.RenewEvery, 0
		case errors.Is(err, ErrLost):
			k.reclaim = held.Check() == nil // no other owner can have held it since
			held.lose(err)
			return
		default:
			if failures == 0 && ctx.Err() == nil {
				k.params.Logger.LogAttrs(ctx, slog.LevelWarn, "lease not renewed, trying again", slog.Any("error", err))
			}
			wait = k.params.Backoff.Delay(failures)
			failures++
		}
	}
}

// renewOnce asks once. It waits for less than the remaining time of the lease, so that a connection
// that swallows one request leaves time for another.
func (k *keeper) renewOnce(ctx context.Context, held *Held) error {
	asking, cancel := context.WithTimeout(ctx, min(k.params.TTL/3, time.Until(held.Lease().Deadline)))
	defer cancel()
	l, err := k.params.Store.Renew(asking, held.Lease(), k.params.TTL)
	if err != nil {
		return err
	}
	return held.renewed(l)
}

// awaitWork waits for work whose context is cancelled, and logs an error once if that takes longer
// than a lease lasts.
func (k *keeper) awaitWork(ctx context.Context, held *Held, done <-chan error) error {
	patience := time.NewTimer(k.params.TTL)
	defer patience.Stop()
	select {
	case result := <-done:
		return result
	case <-patience.C:
		k.params.Logger.LogAttrs(ctx, slog.LevelError, "work continues without its lease",
			slog.Uint64("lease.epoch", held.Epoch()))
		return <-done
	}
}

// giveBack releases the lease, to the heir if there is one. If that fails the lease expires, and
// then anybody may acquire it.
func (k *keeper) giveBack(ctx context.Context, l Lease, held *Held) {
	heir, reserve := held.bequest()
	if heir == "" {
		k.release(ctx, l)
		return
	}
	k.leave(ctx, l, func(ctx context.Context) error { return k.params.Store.Bequeath(ctx, l, heir, reserve) })
}

// release releases the lease. A failure only makes others wait for the lease to expire, so it is
// only logged.
func (k *keeper) release(ctx context.Context, l Lease) {
	k.leave(ctx, l, func(ctx context.Context) error { return k.params.Store.Release(ctx, l) })
}

func (k *keeper) leave(ctx context.Context, l Lease, end func(context.Context) error) {
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := end(leaving)
	if err != nil && !errors.Is(err, ErrLost) {
		k.params.Logger.LogAttrs(ctx, slog.LevelWarn, "lease not released, it will expire",
			slog.Uint64("lease.epoch", l.Epoch), slog.Any("error", err))
	}
}
