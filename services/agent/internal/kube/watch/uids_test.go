// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/kube/watch"
)

// tally is a Handler that identifies objects only by UID. It runs inside a bubble, and is read
// while the bubble is at rest.
type tally struct {
	known  *watch.Known
	uids   map[string]bool
	synced int
}

// Seen implements watch.Handler.
func (l *tally) Seen(o *unstructured.Unstructured) { l.uids[string(o.GetUID())] = true }

// Gone implements watch.Handler.
func (l *tally) Gone(o watch.Object, _ string) { delete(l.uids, o.UID) }

// Synced implements watch.Handler.
func (l *tally) Synced() { l.synced++ }

// Denied implements watch.Handler.
func (l *tally) Denied(error) {}

// TestUIDsAlone creates, deletes and recreates objects while connections break and the server
// forgets versions. In the end exactly the existing objects are known by their UID.
func TestUIDsAlone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			l := &tally{known: watch.NewKnownUIDs(), uids: map[string]bool{}}
			s := start(t, func(s *subject, p *watch.Params) {
				p.Handler, p.Known, p.Settings.PageSize = l, l.known, 3
				s.fake.paged, p.Collection.Metadata = seed%2 == 0, seed%3 == 0
			})
			for range 200 {
				name := fmt.Sprint("object-", r.IntN(10))
				switch r.IntN(8) {
				case 0, 1, 2:
					s.fake.put(name, "web", "1")
				case 3:
					s.fake.put(name, "", "1") // leaves the selection
				case 4, 5:
					s.fake.delete(name)
				case 6:
					s.network.cut()
				case 7:
					s.fake.forget()
				}
				pass(time.Duration(r.IntN(400)) * time.Millisecond)
			}
			pass(time.Minute)
			want := map[string]bool{}
			for _, o := range s.fake.truth() {
				want[o.UID] = true
			}
			if diff := cmp.Diff(want, l.uids); diff != "" || l.known.Len() != len(want) {
				t.Errorf("seed %d: %d known (-want +got):\n%s", seed, l.known.Len(), diff)
			}
			var known []string
			for _, o := range l.known.Objects() {
				known = append(known, o.UID)
			}
			slices.Sort(known)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), known, cmp.Comparer(func(a, b []string) bool { return slices.Equal(a, b) })); diff != "" {
				t.Errorf("seed %d: known (-want +got):\n%s", seed, diff)
			}
		})
	}
}

// TestBack checks that Back is called for a server that is back, and not for a connection that
// ended in time.
func TestBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backs := 0
		s := start(t, func(_ *subject, p *watch.Params) { p.Back = func() { backs++ } })
		assert := func(want int, what string) {
			t.Helper()
			if backs != want {
				t.Errorf("%s: told %d times that the server is back, want %d", what, backs, want)
			}
		}
		pass(3 * time.Hour)
		assert(0, "three quiet hours")
		s.network.cut()
		pass(2 * time.Minute) // by then there was a bookmark
		assert(1, "a connection that was cut")
		s.network.setDown(true)
		pass(time.Hour)
		assert(1, "a server that is away")
		s.network.setDown(false)
		pass(2 * time.Minute)
		assert(2, "a server that was away")
		s.fake.mu.Lock()
		s.fake.refuse = func(*http.Request) *http.Response { return &http.Response{StatusCode: 403, Status: "Forbidden"} }
		s.fake.mu.Unlock()
		s.network.cut()
		pass(time.Hour)
		assert(2, "a server that does not allow to watch")
		s.fake.mu.Lock()
		s.fake.refuse = nil
		s.fake.mu.Unlock()
		pass(10 * time.Minute)
		assert(3, "a server that allows it again")
	})
}
