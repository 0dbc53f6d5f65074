// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

func (d *disk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *disk) gone() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.removed))
}

func TestMirrorsWithoutDefinitionGoAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.disk.stored = []mirror.Stored{{UID: "uid-demo"}, {UID: "deleted"}, {UID: "sealed-otherwise"}}
		w.disk.named = map[string]bool{"sealed-otherwise": true} // not even demo, which this replica knows
		_, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		time.Sleep(20 * time.Minute)
		if got := w.disk.gone(); len(got) != 0 {
			t.Fatalf("got %v removed while nobody knows what is defined, want nothing", got)
		}
		w.disk.set(func() { w.disk.sure = true })
		time.Sleep(9 * time.Minute)
		w.disk.set(func() { w.disk.sure = false })
		time.Sleep(2 * time.Minute)
		w.disk.set(func() { w.disk.sure = true })
		time.Sleep(9 * time.Minute)
		if got := w.disk.gone(); len(got) != 0 {
			t.Fatalf("got %v removed after a doubt, want the time to begin anew", got)
		}
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff([]string{"deleted"}, w.disk.gone()); diff != "" {
			t.Errorf("removed (-want +got):\n%s", diff)
		}
	})
}

// TestDefinitionThatComesBackKeepsItsMirror is Redis losing its memory for some minutes.
func TestDefinitionThatComesBackKeepsItsMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.disk.sure = true
		w.disk.stored = []mirror.Stored{{UID: "uid-late"}}
		w.disk.named = map[string]bool{"uid-demo": true}
		_, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		for range 5 {
			time.Sleep(8 * time.Minute)
			w.disk.set(func() { w.disk.named["uid-late"] = true })
			time.Sleep(3 * time.Minute)
			w.disk.set(func() { delete(w.disk.named, "uid-late") })
		}
		if got := w.disk.gone(); len(got) != 0 {
			t.Errorf("got %v removed, want nothing", got)
		}
	})
}

// TestOnlyCopiesThatNobodyNeedsAreEvicted fills the disk of a replica that owns one repository,
// follows another, and has copies of others from an earlier time.
func TestOnlyCopiesThatNobodyNeedsAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.followers = 1
		var defs []mirror.Definition
		loaded := map[string]mirror.Content{}
		roles := map[string]int{} // UID → place of the replica in the repository's order
		members := []string{"http://a", "http://b", "http://c"}
		for _, name := range []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"} {
			def := definition(name)
			defs = append(defs, def)
			loaded[def.UID] = mirror.Content{FreshAt: time.Now(), Epoch: 1}
			roles[def.UID] = rendezvous.Rank(def.UID, members, "http://a")
		}
		others := newWorld()
		others.upstream, others.events, others.leases, others.fleet, others.followers = w.upstream, w.events, w.leases, w.fleet, 1
		var unneeded []string
		for i, def := range defs {
			w.disk.stored = append(w.disk.stored, mirror.Stored{UID: def.UID, Bytes: 10, ReadAt: time.Unix(int64(1000-i), 0)})
			if roles[def.UID] > 1 {
				unneeded = append(unneeded, def.UID)
			}
		}
		if len(unneeded) < 2 {
			t.Fatalf("got %v to evict, want a test with two at least", roles)
		}
		slices.Reverse(unneeded) // those last in the list were read first
		_, run := w.member(t, "a", loaded, defs...)
		_, runB := others.member(t, "b", nil, defs...)
		_, runC := others.member(t, "c", nil, defs...)
		defer run()()
		defer runB()()
		defer runC()()
		time.Sleep(10 * time.Minute)
		if got := w.disk.gone(); len(got) != 0 {
			t.Fatalf("got %v evicted without a bound, want nothing", got)
		}
		w.disk.set(func() { w.disk.limit = 99 }) // one too many
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff(unneeded[:1], w.disk.gone()); diff != "" {
			t.Errorf("evicted first (-want +got):\n%s", diff)
		}
		w.disk.set(func() { w.disk.limit = 1 })
		time.Sleep(5 * time.Minute)
		slices.Sort(unneeded)
		if diff := cmp.Diff(unneeded, w.disk.gone()); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	})
}

func TestFullDiskIsTendedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.StorageFull, Message: "full"})
		w.disk.sure, w.disk.named = true, map[string]bool{"uid-demo": true}
		looked := make(chan time.Duration, 1)
		began := time.Now()
		w.disk.look = func() {
			select {
			case looked <- time.Since(began):
			default:
			}
		}
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		if took := <-looked; took > time.Second {
			t.Errorf("got a look at the disk after %s, want one at once", took)
		}
		if got := get(t, set, "demo").State(); got.Problem == nil || got.Problem.Reason != reason.StorageFull {
			t.Errorf("got %+v, want the disk full", got)
		}
	})
}

func TestOwnersCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.followers = 1
		other := w
		other.disk = &disk{}
		var here, there atomic.Int64
		var fails atomic.Bool
		w.disk.compact = func(string) (mirror.Compaction, error) {
			here.Add(1)
			if fails.Load() {
				return mirror.Compaction{}, errors.New("a pack is damaged")
			}
			return mirror.Compaction{PacksBefore: 2, PacksAfter: 1, BytesAfter: 17}, nil
		}
		other.disk.compact = func(string) (mirror.Compaction, error) {
			there.Add(1)
			return mirror.Compaction{}, nil
		}
		def := definition("demo")
		def.PollInterval = 24 * time.Hour
		order := rendezvous.Order(def.UID, []string{"http://a", "http://b"})
		set, stop := w.replica(t, strings.TrimPrefix(order[0], "http://"), nil, def)
		defer stop()
		synctest.Wait() // owns it
		_, stopOther := other.replica(t, strings.TrimPrefix(order[1], "http://"), nil, def)
		defer stopOther()
		time.Sleep(2 * time.Minute)
		if here.Load() == 0 || there.Load() != 0 {
			t.Errorf("got %d compactions at the owner and %d elsewhere, want some and none", here.Load(), there.Load())
		}
		if got := get(t, set, "demo").State().DiskBytes; got != 17 {
			t.Errorf("got %d bytes, want what the compaction left", got)
		}
		fails.Store(true)
		time.Sleep(2 * time.Minute)
		before := here.Load()
		time.Sleep(50 * time.Minute)
		if more := here.Load() - before; more != 0 {
			t.Errorf("got %d compactions within the hour after one that failed, want none", more)
		}
		time.Sleep(15 * time.Minute)
		if here.Load() == before {
			t.Error("got no compaction an hour after one that failed, want another try")
		}
	})
}

// TestEvictedCopyForgetsHeldRefs evicts a copy of which a ref was held back: a removed copy has no
// problem any more.
func TestEvictedCopyForgetsHeldRefs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, def := signed(t)
		held := mirror.Ref{Name: "refs/heads/main", Object: badCommit, Commit: badCommit, Held: "is not signed"}
		loaded := map[string]mirror.Content{def.UID: {
			Refs: mirror.Refs{held}, FreshAt: time.Now(), Epoch: 1, Policy: provenance.Fingerprint(def.Verification),
		}}
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable})
		order := rendezvous.Order(def.UID, []string{"http://a", "http://b"})
		owner, other := w, w
		owner.disk, other.disk = &disk{}, &disk{stored: []mirror.Stored{{UID: def.UID, Bytes: 10}}, limit: 1}
		_, runOwner := owner.member(t, strings.TrimPrefix(order[0], "http://"), loaded, def)
		set, runOther := other.member(t, strings.TrimPrefix(order[1], "http://"), loaded, def)
		defer runOwner()()
		time.Sleep(time.Minute) // it has the lease by then; of two that begin together either may take it first
		defer runOther()()
		synctest.Wait()
		r := get(t, set, "demo")
		if p := r.State().Problem; p == nil || p.Reason != reason.UpstreamSignatureRejected {
			t.Fatalf("got the problem %v, want the ref that is held back", p)
		}
		time.Sleep(3 * time.Minute)
		if got := other.disk.gone(); len(got) != 1 {
			t.Fatalf("got %v evicted, want the copy", got)
		}
		if state := r.State(); state.Problem != nil || len(state.HeldRefs) > 0 {
			t.Errorf("got %+v of a copy that is gone, want no refs held back", state)
		}
	})
}
