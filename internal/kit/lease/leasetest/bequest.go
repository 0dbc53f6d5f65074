// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package leasetest

import (
	"context"
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/internal/testkit/await"
)

func onlyTheHeirInherits(t *testing.T, s Subject) {
	t.Helper()
	old := acquire(t, s, "k", "a", long)
	if err := s.Store.Bequeath(t.Context(), old, "heir", long); err != nil {
		t.Fatalf("bequeath: %v", err)
	}
	checkLost(t, s, old)
	if _, err := s.Store.Holder(t.Context(), "k"); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("holder of a reserved key: got %v, want ErrNotHeld", err)
	}
	for _, other := range []string{"b", "a"} {
		_, err := s.Store.Acquire(t.Context(), lease.AcquireParams{Key: "k", Owner: other, TTL: long})
		held, ok := errors.AsType[*lease.HeldError](err)
		if !ok || held.Owner != "heir" || held.Epoch != old.Epoch || held.Remaining <= 0 || held.Remaining > long {
			t.Errorf("acquire by %q of what is reserved for another: got %v", other, err)
		}
	}
	inherited := acquire(t, s, "k", "heir", long)
	if inherited.Epoch <= old.Epoch {
		t.Errorf("got epoch %d for the heir, want more than %d", inherited.Epoch, old.Epoch)
	}
	if err := s.Store.Release(t.Context(), inherited); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, "k", "b", long) // the inherited lease is no longer reserved
}

func bequestEnds(t *testing.T, s Subject) {
	t.Helper()
	if err := s.Store.Bequeath(t.Context(), acquire(t, s, "k", "a", long), "dead", s.short()); err != nil {
		t.Fatalf("bequeath: %v", err)
	}
	if s.Advance != nil {
		s.Advance(s.short())
	}
	awaitAcquired(t, s, "k", "b")
}

func badBequests(t *testing.T, s Subject) {
	t.Helper()
	l := acquire(t, s, "k", "a", long)
	if s.Store.Bequeath(t.Context(), l, "", long) == nil || s.Store.Bequeath(t.Context(), l, "b", 0) == nil {
		t.Error("bequeath to nobody, or for no time: got no error")
	}
	checkHolder(t, s, l, long)
	l.Epoch++
	if err := s.Store.Bequeath(t.Context(), l, "b", long); !errors.Is(err, lease.ErrLost) {
		t.Errorf("bequeath of another's lease: got %v, want ErrLost", err)
	}
}

// graceAfterAmnesia passes an epoch that the store never granted: an earlier owner may still hold
// the lease.
func graceAfterAmnesia(t *testing.T, s Subject) {
	t.Helper()
	p := lease.AcquireParams{Key: "k", Owner: "a", TTL: long, MinEpoch: 7, Grace: s.short()}
	_, err := s.Store.Acquire(t.Context(), p)
	held, ok := errors.AsType[*lease.HeldError](err)
	if !ok || held.Owner != "" || held.Epoch != 7 || held.Remaining <= 0 || held.Remaining > p.Grace {
		t.Fatalf("acquire above all epochs given: got %v, want it held by nobody for at most %s", err, p.Grace)
	}
	if s.Advance != nil {
		s.Advance(s.short())
	}
	awaitAcquired(t, s, "k", "b")
	holder, err := s.Store.Holder(t.Context(), "k")
	if err != nil || holder.Epoch <= 7 {
		t.Errorf("got %+v (%v), want an epoch above 7", holder, err)
	}
	if err := s.Store.Release(t.Context(), lease.Lease{Key: "k", Owner: "b", Epoch: holder.Epoch}); err != nil {
		t.Fatal(err)
	}
	p.MinEpoch, p.TTL = holder.Epoch, long // granted by the store itself
	if _, err := s.Store.Acquire(t.Context(), p); err != nil {
		t.Errorf("acquire above an epoch that was given: got %v", err)
	}
}

// reclaimAfterAmnesia has the earlier holder ask: it need not wait for itself, even if another
// owner has asked before. It does not get a lease that is held, or reserved for an heir.
func reclaimAfterAmnesia(t *testing.T, s Subject) {
	t.Helper()
	other := lease.AcquireParams{Key: "k", Owner: "other", TTL: long, MinEpoch: 5, Grace: long}
	if _, err := s.Store.Acquire(t.Context(), other); !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("acquire above all epochs given: got %v, want ErrHeld", err)
	}
	p := lease.AcquireParams{Key: "k", Owner: "a", TTL: long, MinEpoch: 7, Grace: long, Reclaim: true}
	l, err := s.Store.Acquire(t.Context(), p)
	if err != nil || l.Epoch <= 7 {
		t.Fatalf("reclaim: got %+v, %v, want an epoch above 7", l, err)
	}
	p.Owner = "b"
	if _, err := s.Store.Acquire(t.Context(), p); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("reclaim what another holds: got %v, want ErrHeld", err)
	}
	if err := s.Store.Bequeath(t.Context(), l, "heir", long); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Acquire(t.Context(), p); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("reclaim what is reserved for an heir: got %v, want ErrHeld", err)
	}
}

// awaitAcquired asks for the lease until it is granted.
func awaitAcquired(t *testing.T, s Subject, key, owner string) {
	t.Helper()
	await.Success(t, "the lease of "+key, func(ctx context.Context) error {
		_, err := s.Store.Acquire(ctx, lease.AcquireParams{Key: key, Owner: owner, TTL: long})
		return err
	})
}
