// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
)

// unreliable is one owner's connection to the shared store: at random a call is refused, hangs, is
// late, or succeeds and its answer is lost.
type unreliable struct {
	*leasemem.Store
	mu     sync.Mutex
	random *rand.Rand
}

func (u *unreliable) draw(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.random.IntN(n)
}

// through runs call with a random fault. It obeys the context, as a network client does.
func (u *unreliable) through(ctx context.Context, call func() error) error {
	fault := u.draw(8)
	if fault == 0 {
		return errors.New("refused")
	}
	if fault == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	rest(ctx, time.Duration(u.draw(4000))*time.Millisecond)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := call()
	if fault == 2 {
		return errors.New("answer lost")
	}
	rest(ctx, time.Duration(u.draw(4000))*time.Millisecond)
	return err
}

func (u *unreliable) Acquire(ctx context.Context, p lease.AcquireParams) (l lease.Lease, err error) {
	sent := time.Now()
	err = u.through(ctx, func() error {
		var err error
		l, err = u.Store.Acquire(context.WithoutCancel(ctx), p)
		return err
	})
	l.Deadline = sent.Add(p.TTL) // like an adapter: from before the request was sent
	return l, err
}

func (u *unreliable) Renew(ctx context.Context, old lease.Lease, ttl time.Duration) (l lease.Lease, err error) {
	sent := time.Now()
	err = u.through(ctx, func() error {
		var err error
		l, err = u.Store.Renew(context.WithoutCancel(ctx), old, ttl)
		return err
	})
	l.Deadline = sent.Add(ttl)
	return l, err
}

func (u *unreliable) Release(ctx context.Context, l lease.Lease) error {
	return u.through(ctx, func() error { return u.Store.Release(context.WithoutCancel(ctx), l) })
}

// record records the works of all owners, and checks them.
type record struct {
	mu       sync.Mutex
	running  map[string]bool
	epoch    uint64
	tenures  int
	problems []string
}

func (r *record) begin(owner string, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) > 0 {
		r.problems = append(r.problems, fmt.Sprintf("%s began while %v ran", owner, r.running))
	}
	if epoch <= r.epoch {
		r.problems = append(r.problems, fmt.Sprintf("%s began with epoch %d after %d", owner, epoch, r.epoch))
	}
	r.running[owner], r.epoch = true, epoch
	r.tenures++
}

func (r *record) end(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, owner)
}

// TestNoTwoWorksOverlap has three owners contend for one key over connections that fail in every
// way, with works that obey their context: no two may ever run at once, epochs only grow, and work
// continues.
func TestNoTwoWorksOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			r := &record{running: make(map[string]bool)}
			contend(t, seed, r)
			for _, problem := range r.problems {
				t.Errorf("seed %d: %s", seed, problem)
			}
			if r.tenures < 5 {
				t.Errorf("seed %d: got %d tenures in half an hour, want the work to continue", seed, r.tenures)
			}
		})
	})
}

func contend(t *testing.T, seed uint64, r *record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	shared := leasemem.New()
	var owners sync.WaitGroup
	for n := range 3 {
		owner := fmt.Sprintf("owner %d", n)
		store := &unreliable{Store: shared, random: rand.New(rand.NewPCG(seed, uint64(n)))}
		owners.Go(func() {
			for ctx.Err() == nil {
				err := lease.Hold(ctx, params(store, owner), func(ctx context.Context, held *lease.Held) error {
					r.begin(owner, held.Epoch())
					defer r.end(owner)
					rest(ctx, time.Duration(store.draw(60_000))*time.Millisecond)
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Errorf("hold: %v", err)
				}
				_ = backoff.Wait(ctx, time.Second)
			}
		})
	}
	owners.Wait()
}
