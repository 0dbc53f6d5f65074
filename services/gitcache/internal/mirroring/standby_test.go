// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// holders returns the replicas that have a mirror of the repository.
func holders(t *testing.T, sets map[string]*mirroring.Set, name string) []string {
	t.Helper()
	var found []string
	for url, set := range sets {
		if _, err := get(t, set, name).Content(); err == nil {
			found = append(found, url)
		}
	}
	return found
}

func TestFollowersCopyFromTheOwner(t *testing.T) {
	for followers, want := range map[int]int{0: 1, 1: 2, 2: 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.followers = followers
			sets := map[string]*mirroring.Set{}
			var runs []func() (stop func())
			for _, name := range []string{"a", "b", "c", "d"} {
				set, run := w.member(t, name, nil, definition("demo"))
				runs = append(runs, run)
				sets["http://"+name] = set
			}
			for _, run := range runs { // all at once: one that believes itself alone would take what another should own
				defer run()()
			}
			time.Sleep(10 * time.Second)
			if got := holders(t, sets, "demo"); len(got) != want {
				t.Errorf("%d followers: got mirrors at %v, want %d", followers, got, want)
			}
			order := rendezvous.Order("uid-demo", w.fleet.Members())
			w.upstream.set(map[string]string{"refs/heads/main": "c2"}, nil)
			if _, err := get(t, sets[order[0]], "demo").Refresh(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			for _, url := range order[:want] {
				c, err := get(t, sets[url], "demo").Content()
				if ref, _ := c.Refs.Get("refs/heads/main"); err != nil || ref.Commit != "c2" {
					t.Errorf("%d followers: got %v (%v) at %s a second after the refs moved, want c2", followers, c.Refs, err, url)
				}
			}
			if w.upstream.clones != 1 {
				t.Errorf("got %d clones, want 1", w.upstream.clones)
			}
		})
	}
}

// TestNoCloneWhileAnyHolderLives lets replicas come and go, one after the other, until none of the
// first is left.
func TestNoCloneWhileAnyHolderLives(t *testing.T) {
	for _, followers := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.followers = followers
			var stops []func()
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				_, stop := w.replica(t, name, nil, definition("one"), definition("two"), definition("three"))
				stops = append(stops, stop)
				time.Sleep(5 * time.Minute)
				if len(stops) > 2 {
					stops[0]()
					stops = stops[1:]
					time.Sleep(5 * time.Minute)
				}
			}
			for _, stop := range stops {
				stop()
			}
			// Without followers a mirror can leave with the replica that had it.
			if w.upstream.clones != 3 && followers > 0 {
				t.Errorf("%d followers: got %d clones, want one of each repository", followers, w.upstream.clones)
			}
			if w.upstream.most > 3 {
				t.Errorf("got %d fetches at once, want at most one of each repository", w.upstream.most)
			}
		})
	}
}

// TestNewReplicaTakesOverWarm adds the replica that should own a repository: it copies, and then is
// given it.
func TestNewReplicaTakesOverWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld() // without followers: the replica that should own the repository copies anyway
		first := rendezvous.Order("uid-demo", []string{"http://a", "http://b"})[0]
		names := map[string]string{"http://a": "b", "http://b": "a"}
		_, stop := w.replica(t, names[first], nil, definition("demo"))
		defer stop()
		time.Sleep(time.Minute)
		set, stop := w.replica(t, first[len("http://"):], nil, definition("demo"))
		defer stop()
		time.Sleep(2 * time.Minute)
		if got := get(t, set, "demo").Epoch(); got != 2 || w.upstream.clones != 1 {
			t.Errorf("got epoch %d and %d clones, want the lease handed over and one clone", got, w.upstream.clones)
		}
	})
}
