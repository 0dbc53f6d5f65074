// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package electiontest holds elections to what package election promises: Check and Contend try what
// a store does with the writes of leaders, and Contests what becomes of work when something happens
// to its leader.
package electiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/services/distributor/internal/spine/election"
)

// Fenced is the store that one replica at a time writes to.
type Fenced struct {
	election.Store

	// Writes are the writes of a leader. Each changes the stored state whenever its term lasts.
	Writes map[string]func(ctx context.Context, term int64) error
	// Rows returns all that is stored, for cmp.Diff.
	Rows func(t *testing.T) any
}

func see(t *testing.T, store election.Store) election.Tenure {
	t.Helper()
	seen, err := store.Tenure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Claim makes holder the leader, in place of the present one, and returns the term.
func Claim(t *testing.T, store election.Store, holder string) (term int64) {
	t.Helper()
	term, ok, err := store.Claim(t.Context(), holder, see(t, store))
	if err != nil || !ok {
		t.Fatalf("claim of %s: got %v, %v", holder, ok, err)
	}
	return term
}

// wantDeposed makes all writes of a term, which must fail and leave all that is stored as it is.
func (f Fenced) wantDeposed(t *testing.T, when string, term int64) {
	t.Helper()
	writes := maps.Clone(f.Writes)
	writes["beat"], writes["resign"] = f.Beat, f.Resign
	for _, name := range slices.Sorted(maps.Keys(writes)) {
		before := f.Rows(t)
		if err := writes[name](t.Context(), term); !errors.Is(err, election.ErrDeposed) {
			t.Errorf("%s of term %d, %s: got %v, want %v", name, term, when, err, election.ErrDeposed)
		}
		if diff := cmp.Diff(before, f.Rows(t)); diff != "" {
			t.Errorf("%s of term %d, %s, wrote (-before +after):\n%s", name, term, when, diff)
		}
	}
}

// wantWritten makes all writes of a term that lasts.
func (f Fenced) wantWritten(t *testing.T, when string, term int64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(f.Writes)) {
		before := f.Rows(t)
		if err := f.Writes[name](t.Context(), term); err != nil {
			t.Errorf("%s of term %d, %s: %v", name, term, when, err)
		}
		if cmp.Equal(before, f.Rows(t)) {
			t.Errorf("%s of term %d, %s, wrote nothing: it shows nothing after the term either", name, term, when)
		}
	}
}

// Check holds a store without a leader to its promise: a replica writes in its term, and never before
// or after it.
func Check(t *testing.T, f Fenced) {
	t.Helper()
	f.wantDeposed(t, "which is nobody's", 0)
	first := see(t, f)
	terms := make(chan int64, 8)
	var replicas sync.WaitGroup
	for i := range cap(terms) {
		replicas.Go(func() {
			term, ok, err := f.Claim(t.Context(), fmt.Sprint("replica ", i), first)
			if err != nil {
				t.Error(err)
			}
			if ok {
				terms <- term
			}
		})
	}
	replicas.Wait()
	if len(terms) != 1 {
		t.Fatalf("%d replicas won the lead that all of them saw, want one", len(terms))
	}
	early := <-terms
	f.wantWritten(t, "while it lasts", early)
	f.wantDeposed(t, "which has not begun", early+1)

	outdated := see(t, f)
	if err := f.Beat(t.Context(), early); err != nil {
		t.Fatal(err)
	}
	before := f.Rows(t)
	if _, ok, err := f.Claim(t.Context(), "slow", outdated); ok || err != nil {
		t.Errorf("claim from before a beat: got %v, %v, want a refusal: the leader lives", ok, err)
	}
	if diff := cmp.Diff(before, f.Rows(t)); diff != "" {
		t.Errorf("a claim that was refused wrote (-before +after):\n%s", diff)
	}

	late := Claim(t, f, "second")
	if late <= early {
		t.Errorf("got term %d after %d, want a later one", late, early)
	}
	f.wantDeposed(t, "after another claim", early)
	f.wantWritten(t, "after it was claimed", late)

	if err := f.Resign(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	f.wantDeposed(t, "after it was resigned", late)
	last := Claim(t, f, "third")
	f.wantDeposed(t, "after it was resigned and another claim", late)
	f.wantWritten(t, "after another was resigned", last)
}

// Contend has replicas claim the lead again and again, without waiting for a silence, and write as long as
// they are not deposed. It ends once enough was written and enough leaders were deposed in the middle of their
// work. write must fail only if the leader is deposed. The result is how many writes were made in each term.
func Contend(t *testing.T, f Fenced, write func(ctx context.Context, term int64) error) map[int64]int {
	t.Helper()
	const contenders, enoughWritten, enoughDeposed = 4, 100, 20
	var written, deposed atomic.Int64
	var mu sync.Mutex
	perTerm := map[int64]int{}
	// work is a term until its end, or until the leader resigns after some writes.
	work := func(term int64) error {
		for i := range 8 {
			if err := write(t.Context(), term); err != nil {
				return err
			}
			mu.Lock()
			perTerm[term]++
			mu.Unlock()
			if written.Add(1); i == 7 {
				return f.Resign(t.Context(), term)
			}
		}
		return nil
	}
	var replicas sync.WaitGroup
	for i := range contenders {
		replicas.Go(func() {
			for !t.Failed() && (written.Load() < enoughWritten || deposed.Load() < enoughDeposed) {
				seen, err := f.Tenure(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				term, ok, err := f.Claim(t.Context(), fmt.Sprint("replica ", i), seen)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				switch err := work(term); {
				case errors.Is(err, election.ErrDeposed):
					deposed.Add(1)
				case err != nil:
					t.Errorf("term %d: got %v, want %v or a write", term, err, election.ErrDeposed)
				}
			}
		})
	}
	replicas.Wait()
	return perTerm
}

// WantInTurn compares writes, in their stored order, by their terms. No term goes back, and each has as many
// as its leader was told.
func WantInTurn(t *testing.T, stored []int64, told map[int64]int) {
	t.Helper()
	if !slices.IsSorted(stored) {
		t.Errorf("got writes of the terms %v, want those of no term after those of a later one", stored)
	}
	found := map[int64]int{}
	for _, term := range stored {
		found[term]++
	}
	if diff := cmp.Diff(told, found); diff != "" {
		t.Errorf("writes by term (-as leaders were told, +stored):\n%s", diff)
	}
}
