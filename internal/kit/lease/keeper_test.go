// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
)

const ttl = 15 * time.Second

var errWork = errors.New("work failed")

// double forwards calls to a leasemem store, unless a function intercepts them.
type double struct {
	*leasemem.Store
	mu     sync.Mutex
	before func(ctx context.Context, call string) error
	calls  map[string]int
}

func newDouble() *double {
	return &double{Store: leasemem.New(), calls: make(map[string]int)}
}

// set makes f decide every further call: an error that it returns replaces the call.
func (d *double) set(f func(ctx context.Context, call string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = f
}

func (d *double) check(ctx context.Context, call string) error {
	d.mu.Lock()
	d.calls[call]++
	before := d.before
	d.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, call)
}

func (d *double) count(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[call]
}

func (d *double) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	if err := d.check(ctx, "acquire"); err != nil {
		return lease.Lease{}, err
	}
	return d.Store.Acquire(ctx, p)
}

func (d *double) Renew(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Lease, error) {
	if err := d.check(ctx, "renew"); err != nil {
		return lease.Lease{}, err
	}
	return d.Store.Renew(ctx, l, ttl)
}

func (d *double) Release(ctx context.Context, l lease.Lease) error {
	if err := d.check(ctx, "release"); err != nil {
		return err
	}
	return d.Store.Release(ctx, l)
}

// hang is a store that does not answer until the caller gives up.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func params(store lease.Store, owner string) lease.KeeperParams {
	return lease.KeeperParams{Store: store, Key: "k", Owner: owner, TTL: ttl}
}

func rest(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(d))
	defer cancel()
	<-ctx.Done()
}

func TestHoldRenewsAndReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		err := lease.Hold(t.Context(), params(store, "a"), func(ctx context.Context, held *lease.Held) error {
			rest(ctx, time.Hour)
			if ctx.Err() != nil || held.Check() != nil || held.Epoch() != 1 {
				t.Errorf("after an hour: got %v, %v, epoch %d, want the first lease held", ctx.Err(), held.Check(), held.Epoch())
			}
			if h, err := store.Holder(ctx, "k"); err != nil || h.Owner != "a" || h.Remaining < ttl/2 {
				t.Errorf("holder after an hour: got %+v, %v, want a with a fresh lease", h, err)
			}
			return errWork
		})
		if !errors.Is(err, errWork) {
			t.Errorf("hold: got %v, want the error of work", err)
		}
		if got := store.count("renew"); got < 700 || got > 720 {
			t.Errorf("renewals in an hour: got %d, want one every 5 s", got)
		}
		if _, err := store.Holder(t.Context(), "k"); !errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("holder after the work: got %v, want ErrNotHeld", err)
		}
	})
}

func TestHoldWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		other, err := store.Store.Acquire(t.Context(), lease.AcquireParams{Key: "k", Owner: "b", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err = lease.Hold(t.Context(), params(store, "a"), func(_ context.Context, held *lease.Held) error {
			if waited := time.Since(start); waited < ttl || waited > ttl+time.Second {
				t.Errorf("waited: got %s, want little more than the dead holder's %s", waited, ttl)
			}
			if held.Epoch() <= other.Epoch {
				t.Errorf("epoch: got %d, want more than %d", held.Epoch(), other.Epoch)
			}
			return nil
		})
		if err != nil {
			t.Errorf("hold: got %v, want nil", err)
		}
	})
}

func TestHoldCancelsAtTheDeadlineOfAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		tenures := 0
		err := lease.Hold(t.Context(), params(store, "a"), func(ctx context.Context, held *lease.Held) error {
			if tenures++; tenures == 2 {
				if held.Epoch() < 2 {
					t.Errorf("epoch of the second tenure: got %d, want a higher one", held.Epoch())
				}
				return nil
			}
			store.set(hang)
			start := time.Now()
			<-ctx.Done()
			if got := time.Since(start); got != ttl {
				t.Errorf("cancelled after %s, want exactly at the deadline, %s", got, ttl)
			}
			if err := held.Check(); !errors.Is(err, lease.ErrLost) || !errors.Is(context.Cause(ctx), lease.ErrLost) {
				t.Errorf("got %v and cause %v, want ErrLost", err, context.Cause(ctx))
			}
			store.set(nil)
			return errWork // dropped: it came too late to count
		})
		if err != nil || tenures != 2 {
			t.Errorf("hold: got %v after %d tenures, want nil after 2", err, tenures)
		}
	})
}

func TestHoldSurvivesFailedRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		err := lease.Hold(t.Context(), params(store, "a"), func(ctx context.Context, held *lease.Held) error {
			for range 20 {
				store.set(func(context.Context, string) error { return errors.New("down") })
				rest(ctx, 8*time.Second) // shorter than the remaining time of a lease that misses one renewal
				store.set(nil)
				rest(ctx, 6*time.Second)
			}
			return held.Check()
		})
		if err != nil {
			t.Errorf("hold through short outages: got %v, want nil", err)
		}
	})
}

func TestHoldCancelsAtOnceWhenTheStoreForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		var epochs []uint64
		var lost time.Time
		p := params(store, "a")
		p.MinEpoch = 41
		err := lease.Hold(t.Context(), p, func(ctx context.Context, held *lease.Held) error {
			epochs = append(epochs, held.Epoch())
			if waited := time.Since(lost); len(epochs) > 1 && waited > 0 {
				t.Errorf("got the lease back after %s, want at once: no other holder can have had it", waited)
			}
			if len(epochs) == 3 {
				return nil
			}
			store.Forget()
			start := time.Now()
			<-ctx.Done()
			if got := time.Since(start); got > ttl/3 {
				t.Errorf("cancelled after %s, want at the next renewal", got)
			}
			lost = time.Now()
			return nil // dropped
		})
		if err != nil || len(epochs) != 3 || epochs[0] != 42 || epochs[1] != 43 || epochs[2] != 44 {
			t.Errorf("hold: got %v and epochs %v, want 42 43 44 although the store forgot them", err, epochs)
		}
	})
}

func TestHoldKeepsTheLeaseUntilWorkHasStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		ctx, cancel := context.WithCancelCause(t.Context())
		err := lease.Hold(ctx, params(store, "a"), func(ctx context.Context, held *lease.Held) error {
			cancel(errWork)
			<-ctx.Done()
			rest(context.WithoutCancel(ctx), time.Minute) // it takes time to drain
			if err := held.Check(); err != nil {
				t.Errorf("lease while draining: got %v, want it held", err)
			}
			return nil
		})
		if !errors.Is(err, errWork) {
			t.Errorf("hold: got %v, want the cause of the context", err)
		}
		if _, err := store.Holder(t.Context(), "k"); !errors.Is(err, lease.ErrNotHeld) {
			t.Errorf("holder after the end: got %v, want ErrNotHeld", err)
		}
	})
}

func TestHoldNeverReacquiresWhileWorkRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newDouble()
		tenures := 0
		err := lease.Hold(t.Context(), params(store, "a"), func(ctx context.Context, held *lease.Held) error {
			if tenures++; tenures == 2 {
				return nil
			}
			store.Forget()
			<-ctx.Done()
			acquired := store.count("acquire")
			rest(context.WithoutCancel(ctx), 10*time.Minute) // ignores its context
			if got := store.count("acquire"); got != acquired {
				t.Errorf("acquired while work still ran: got %d calls, want %d", got, acquired)
			}
			if !errors.Is(held.Check(), lease.ErrLost) {
				t.Errorf("check long after the loss: got %v, want ErrLost", held.Check())
			}
			return nil
		})
		if err != nil || tenures != 2 {
			t.Errorf("hold: got %v after %d tenures, want nil after 2", err, tenures)
		}
	})
}

func TestHoldEndsWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, before := range map[string]func(context.Context, string) error{
			"hanging": hang, "failing": func(context.Context, string) error { return errors.New("down") },
		} {
			store := newDouble()
			store.set(before)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			start := time.Now()
			err := lease.Hold(ctx, params(store, "a"), func(context.Context, *lease.Held) error {
				t.Error("work ran without a lease")
				return nil
			})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
				t.Errorf("%s: got %v after %s, want the deadline after 1m", name, err, time.Since(start))
			}
			cancel()
		}
		bad := params(leasemem.New(), "")
		if err := lease.Hold(t.Context(), bad, nil); err == nil {
			t.Error("hold without an owner: got nil, want an error")
		}
	})
}

// TestLateAnswerIsNoLease delays the answer to Acquire until the lease it grants has ended.
func TestLateAnswerIsNoLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &lateStore{Store: leasemem.New(), late: 1}
		err := lease.Hold(t.Context(), params(store, "a"), func(_ context.Context, held *lease.Held) error {
			if held.Epoch() != 2 || held.Check() != nil {
				t.Errorf("got epoch %d and %v, want the second lease, held", held.Epoch(), held.Check())
			}
			return nil
		})
		if err != nil {
			t.Errorf("hold: got %v, want nil", err)
		}
	})
}

type lateStore struct {
	*leasemem.Store
	late int
}

func (s *lateStore) Acquire(ctx context.Context, p lease.AcquireParams) (lease.Lease, error) {
	l, err := s.Store.Acquire(ctx, p)
	if s.late > 0 {
		s.late--
		rest(context.WithoutCancel(ctx), p.TTL)
	}
	return l, err
}

func TestExpiredMindsBothClocks(t *testing.T) {
	t.Parallel()
	start := time.Now()
	l := lease.Lease{Deadline: start.Add(ttl)}
	wall := func(d time.Duration) time.Time { return start.Round(0).Add(d) } // without the monotonic clock
	for name, test := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once":             {start, false},
		"just before":         {start.Add(ttl - 1), false},
		"at the deadline":     {start.Add(ttl), true},
		"after":               {start.Add(time.Hour), true},
		"wall clock before":   {wall(ttl - 1), false},
		"wall clock ran on":   {wall(ttl), true}, // the machine was suspended: the monotonic clock stood still
		"wall clock set back": {wall(-time.Hour), false},
	} {
		if got := l.Expired(test.now); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
