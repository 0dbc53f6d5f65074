// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanout_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
)

func TestWatchersGetWhatConcernsThem(t *testing.T) {
	t.Parallel()
	hub := fanout.NewHub[string](0)
	one, all := hub.Watch("a"), hub.WatchAll()
	hub.Publish("b", "a", "b", "a")
	<-one.Ready()
	if keys, lagged := one.Take(); !slices.Equal(keys, []string{"a"}) || lagged {
		t.Errorf("got %v, %v, want a alone, once", keys, lagged)
	}
	<-all.Ready()
	if keys, _ := all.Take(); !slices.Equal(keys, []string{"b", "a"}) {
		t.Errorf("got %v, want each key once in the order of its first change", keys)
	}
	select {
	case <-all.Ready():
		t.Error("ready without a change")
	default:
	}
	if got := hub.Watchers(); got != 2 {
		t.Errorf("got %d watchers, want 2", got)
	}
	one.Close()
	one.Close()
	all.Close()
	hub.Publish("a")
	if keys, _ := one.Take(); len(keys) != 0 || hub.Watchers() != 0 {
		t.Errorf("got %v and %d watchers after closing, want none", keys, hub.Watchers())
	}
}

func TestASlowWatcherIsBounded(t *testing.T) {
	t.Parallel()
	hub := fanout.NewHub[int](3)
	w := hub.WatchAll()
	defer w.Close()
	for i := range 1000 {
		hub.Publish(i) // returns although no watcher takes
	}
	<-w.Ready()
	if keys, lagged := w.Take(); !lagged || len(keys) != 0 {
		t.Errorf("got %v, %v, want lagged", keys, lagged)
	}
	hub.Publish(7)
	<-w.Ready()
	if keys, lagged := w.Take(); lagged || !slices.Equal(keys, []int{7}) {
		t.Errorf("got %v, %v, want 7: it caught up", keys, lagged)
	}
}

func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	hub := fanout.NewHub[int](0)
	w := hub.WatchAll()
	defer w.Close()
	var publishers sync.WaitGroup
	for i := range 4 {
		publishers.Go(func() {
			for j := range 100 {
				hub.Publish(i*100 + j)
			}
		})
	}
	seen := map[int]bool{}
	for len(seen) < 400 {
		<-w.Ready()
		keys, _ := w.Take()
		for _, key := range keys {
			seen[key] = true
		}
	}
	publishers.Wait()
}
