// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package leasetest is the test suite that every implementation of [lease.Store] must pass.
package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/testkit/await"
)

// Subject is a store under test, in which nothing is held.
type Subject struct {
	Store lease.Store
	// Advance makes time pass for the store. Nil: it follows the real clock, and the suite waits
	// for leases to end.
	Advance func(time.Duration)
}

// long never ends during a test, unless time is advanced.
const long = time.Hour

// short is a time that a test can wait for.
func (s Subject) short() time.Duration {
	if s.Advance != nil {
		return 5 * time.Second
	}
	return 50 * time.Millisecond
}

// Run tests the stores that newSubject makes.
func Run(t *testing.T, newSubject func(t *testing.T) Subject) {
	t.Helper()
	for name, prove := range map[string]func(*testing.T, Subject){
		"acquire and release":     acquireAndRelease,
		"held is refused":         heldIsRefused,
		"expiry":                  expiry,
		"renewal":                 renewal,
		"renewal shortens":        renewalShortens,
		"lost after takeover":     lostAfterTakeover,
		"lost without takeover":   lostWithoutTakeover,
		"epochs grow":             epochsGrow,
		"epoch floor":             epochFloor,
		"keys are apart":          keysAreApart,
		"bad params":              badParams,
		"odd owners":              oddOwners,
		"deadline":                deadline,
		"one winner":              oneWinner,
		"context":                 contextEnds,
		"forged lease is refused": forged,
		"only the heir inherits":  onlyTheHeirInherits,
		"a bequest ends":          bequestEnds,
		"bad bequests":            badBequests,
		"grace after amnesia":     graceAfterAmnesia,
		"reclaim after amnesia":   reclaimAfterAmnesia,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prove(t, newSubject(t))
		})
	}
}

func acquire(t *testing.T, s Subject, key, owner string, ttl time.Duration) lease.Lease {
	t.Helper()
	l, err := s.Store.Acquire(t.Context(), lease.AcquireParams{Key: key, Owner: owner, TTL: ttl})
	if err != nil {
		t.Fatalf("acquire %q for %q: %v", key, owner, err)
	}
	if l.Key != key || l.Owner != owner || l.Epoch == 0 {
		t.Fatalf("acquire %q for %q: got %+v", key, owner, l)
	}
	return l
}

// awaitFree returns when the key is free.
func awaitFree(t *testing.T, s Subject, key string) {
	t.Helper()
	if s.Advance != nil {
		s.Advance(s.short())
	}
	await.True(t, "the end of the lease of "+key, func() bool {
		_, err := s.Store.Holder(t.Context(), key)
		if err != nil && !errors.Is(err, lease.ErrNotHeld) {
			t.Fatalf("holder of %q: %v", key, err)
		}
		return err != nil
	})
}

func checkHolder(t *testing.T, s Subject, want lease.Lease, ttl time.Duration) {
	t.Helper()
	got, err := s.Store.Holder(t.Context(), want.Key)
	if err != nil || got.Owner != want.Owner || got.Epoch != want.Epoch || got.Remaining <= 0 || got.Remaining > ttl {
		t.Errorf("holder of %q: got %+v, %v, want %q at epoch %d for at most %s",
			want.Key, got, err, want.Owner, want.Epoch, ttl)
	}
}

func checkLost(t *testing.T, s Subject, l lease.Lease) {
	t.Helper()
	if _, err := s.Store.Renew(t.Context(), l, long); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renew of %+v: got %v, want ErrLost", l, err)
	}
	if err := s.Store.Release(t.Context(), l); !errors.Is(err, lease.ErrLost) {
		t.Errorf("release of %+v: got %v, want ErrLost", l, err)
	}
}

func acquireAndRelease(t *testing.T, s Subject) {
	if _, err := s.Store.Holder(t.Context(), "k"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("holder before anybody: got %v, want ErrNotHeld", err)
	}
	l := acquire(t, s, "k", "a", long)
	checkHolder(t, s, l, long)
	if err := s.Store.Release(t.Context(), l); err != nil {
		t.Errorf("release: got %v, want nil", err)
	}
	if _, err := s.Store.Holder(t.Context(), "k"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("holder after release: got %v, want ErrNotHeld", err)
	}
	checkLost(t, s, l)
	acquire(t, s, "k", "b", long)
}

func heldIsRefused(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", long)
	for _, owner := range []string{"b", "a"} { // its own owner too
		_, err := s.Store.Acquire(t.Context(), lease.AcquireParams{Key: "k", Owner: owner, TTL: long})
		held, ok := errors.AsType[*lease.HeldError](err)
		if !errors.Is(err, lease.ErrHeld) || !ok {
			t.Fatalf("acquire by %q: got %v, want a HeldError", owner, err)
		}
		if held.Key != "k" || held.Owner != "a" || held.Epoch != l.Epoch || held.Remaining <= 0 || held.Remaining > long {
			t.Errorf("acquire by %q: got %+v, want the holder a at epoch %d", owner, held, l.Epoch)
		}
	}
	checkHolder(t, s, l, long)
	if _, err := s.Store.Renew(t.Context(), l, long); err != nil {
		t.Errorf("renew after refusals: got %v, want nil", err)
	}
}

func expiry(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", s.short())
	awaitFree(t, s, "k")
	next := acquire(t, s, "k", "b", long)
	if next.Epoch <= l.Epoch {
		t.Errorf("epoch after expiry: got %d, want more than %d", next.Epoch, l.Epoch)
	}
}

func renewal(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", s.short())
	before := time.Now()
	renewed, err := s.Store.Renew(t.Context(), l, long)
	if err != nil {
		t.Fatalf("renew: %v", err)
	}
	if renewed.Epoch != l.Epoch || renewed.Key != l.Key || renewed.Owner != l.Owner {
		t.Errorf("renewed: got %+v, want the same lease as %+v", renewed, l)
	}
	if renewed.Deadline.Before(before.Add(long)) || renewed.Deadline.After(time.Now().Add(long)) {
		t.Errorf("deadline: got %s, want %s after the call", renewed.Deadline, long)
	}
	if s.Advance != nil {
		s.Advance(long / 2)
	}
	checkHolder(t, s, l, long)
	if _, err := s.Store.Renew(t.Context(), l, long); err != nil { // the old value renews the lease, too
		t.Errorf("renew with the value from before: got %v, want nil", err)
	}
}

func renewalShortens(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", long)
	if _, err := s.Store.Renew(t.Context(), l, s.short()); err != nil {
		t.Fatalf("renew: %v", err)
	}
	awaitFree(t, s, "k")
}

func lostAfterTakeover(t *testing.T, s Subject) {
	old := acquire(t, s, "k", "a", s.short())
	awaitFree(t, s, "k")
	l := acquire(t, s, "k", "a", long) // the same owner: only the epoch distinguishes the two
	checkLost(t, s, old)
	checkHolder(t, s, l, long)
}

func lostWithoutTakeover(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", s.short())
	awaitFree(t, s, "k")
	checkLost(t, s, l)
}

func epochsGrow(t *testing.T, s Subject) {
	var last uint64
	for round := range 20 {
		l := acquire(t, s, "k", fmt.Sprintf("owner %d", round%2), long)
		if l.Epoch <= last {
			t.Errorf("epoch %d: got %d, want more than %d", round, l.Epoch, last)
		}
		last = l.Epoch
		if err := s.Store.Release(t.Context(), l); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
}

func epochFloor(t *testing.T, s Subject) {
	const floor = 1 << 50 // beyond what tostring prints without an exponent in Lua
	for _, test := range []struct{ floor, want uint64 }{{floor, floor + 1}, {7, floor + 2}, {floor + 2, floor + 3}, {0, floor + 4}} {
		l, err := s.Store.Acquire(t.Context(), lease.AcquireParams{Key: "k", Owner: "a", TTL: long, MinEpoch: test.floor})
		if err != nil || l.Epoch != test.want {
			t.Fatalf("acquire above %d: got epoch %d, %v, want %d", test.floor, l.Epoch, err, test.want)
		}
		checkHolder(t, s, l, long)
		if err := s.Store.Release(t.Context(), l); err != nil {
			t.Fatalf("release: %v", err)
		}
	}
}

func keysAreApart(t *testing.T, s Subject) {
	a, b := acquire(t, s, "k", "a", long), acquire(t, s, "k:2", "b", long)
	if err := s.Store.Release(t.Context(), a); err != nil {
		t.Fatalf("release: %v", err)
	}
	checkHolder(t, s, b, long)
}

func badParams(t *testing.T, s Subject) {
	good := lease.AcquireParams{Key: "k", Owner: "a", TTL: long}
	for name, change := range map[string]func(*lease.AcquireParams){
		"no key":          func(p *lease.AcquireParams) { p.Key = "" },
		"braces":          func(p *lease.AcquireParams) { p.Key = "a}b" },
		"long key":        func(p *lease.AcquireParams) { p.Key = strings.Repeat("k", 513) },
		"no owner":        func(p *lease.AcquireParams) { p.Owner = "" },
		"control in name": func(p *lease.AcquireParams) { p.Owner = "a\n" },
		"no time":         func(p *lease.AcquireParams) { p.TTL = 0 },
		"too little time": func(p *lease.AcquireParams) { p.TTL = time.Microsecond },
	} {
		p := good
		change(&p)
		if l, err := s.Store.Acquire(t.Context(), p); err == nil || errors.Is(err, lease.ErrHeld) {
			t.Errorf("%s: got %+v, %v, want a refusal", name, l, err)
		}
	}
}

func oddOwners(t *testing.T, s Subject) {
	for n, owner := range []string{"with space", "http://10.0.0.1:8080/x?y=1#z", "1 2 3", " ", "größe", "%d", `"'\`} {
		l := acquire(t, s, fmt.Sprintf("git@host:group/repo.git %d", n), owner, long)
		checkHolder(t, s, l, long)
		if _, err := s.Store.Renew(t.Context(), l, long); err != nil {
			t.Errorf("renew for %q: got %v, want nil", owner, err)
		}
		if err := s.Store.Release(t.Context(), l); err != nil {
			t.Errorf("release for %q: got %v, want nil", owner, err)
		}
	}
}

// deadline checks that the holder's deadline is no later than the store's.
func deadline(t *testing.T, s Subject) {
	before := time.Now()
	l := acquire(t, s, "k", "a", long)
	if l.Deadline.After(time.Now().Add(long)) || l.Deadline.Before(before.Add(long)) {
		t.Errorf("deadline: got %s, want %s after the call began", l.Deadline, long)
	}
	if l.Expired(time.Now()) {
		t.Error("a new lease: got expired, want not")
	}
}

func oneWinner(t *testing.T, s Subject) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var winners []lease.Lease
	for n := range 16 {
		all.Go(func() {
			l, err := s.Store.Acquire(t.Context(), lease.AcquireParams{Key: "k", Owner: fmt.Sprintf("owner %d", n), TTL: long})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, l)
			} else if !errors.Is(err, lease.ErrHeld) {
				t.Errorf("acquire: got %v, want ErrHeld", err)
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Fatalf("winners of 16: got %+v, want one", winners)
	}
	checkHolder(t, s, winners[0], long)
}

func contextEnds(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", long)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errAcquire := s.Store.Acquire(ctx, lease.AcquireParams{Key: "other", Owner: "a", TTL: long})
	_, errRenew := s.Store.Renew(ctx, l, long)
	_, errHolder := s.Store.Holder(ctx, "k")
	for name, err := range map[string]error{
		"acquire": errAcquire, "renew": errRenew, "release": s.Store.Release(ctx, l), "holder": errHolder,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: got %v, want context.Canceled", name, err)
		}
	}
	checkHolder(t, s, l, long)
}

func forged(t *testing.T, s Subject) {
	l := acquire(t, s, "k", "a", long)
	for name, change := range map[string]func(*lease.Lease){
		"owner":        func(l *lease.Lease) { l.Owner = "b" },
		"lower epoch":  func(l *lease.Lease) { l.Epoch-- },
		"higher epoch": func(l *lease.Lease) { l.Epoch++ },
		"key":          func(l *lease.Lease) { l.Key = "other" },
	} {
		other := l
		change(&other)
		t.Log(name)
		checkLost(t, s, other)
	}
	checkHolder(t, s, l, long)
}
