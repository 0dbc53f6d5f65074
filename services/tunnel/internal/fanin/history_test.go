// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

func TestStalledViewerHoldsNobodyBack(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 50_000, Ahead: 5000})
		s.pad = strings.Repeat("x", 1000)
		s.touch("a")
		stalled, err := ask(t, relay, s, anyState, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := stalled.readSome(100); err != nil { // it has begun an event
			t.Fatal(err)
		}
		fast := watch(t, relay, s, anyState)
		for range 200 {
			s.touch("a")
			synctest.Wait()
		}
		fast.want(s.last().all())
		if got := relay.Stats().Bytes; got > 60_000 {
			t.Errorf("got a history of %d bytes, want at most 60000", got)
		}
		go stalled.readAll()
		stalled.wantEnd(io.EOF)
		if got, whole := stalled.text(), s.last().all(); !strings.HasPrefix(whole, got) || !strings.HasSuffix(got, "\n") {
			t.Errorf("got %q, want whole events", got)
		}
		if got := relay.Stats().Lagged; got != 1 {
			t.Errorf("got %d viewers that fell behind, want 1", got)
		}
		stalled.leave()
		fast.leave()
		<-time.After(6 * time.Second)
	})
}

func TestViewersWhoAllStallHoldTheClusterBack(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 50_000, Ahead: 5000})
		s.pad = strings.Repeat("x", 1000)
		for range 20 {
			s.touch("a")
			s.touch("b")
		}
		v, err := ask(t, relay, s, from(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.last().taken(); got > 5000+32<<10 {
			t.Errorf("got %d bytes read for a viewer who reads none, want a window at most", got)
		}
		go v.readAll()
		v.want(s.direct(1))
		v.leave()
		<-time.After(6 * time.Second)
	})
}

// A state that is longer than the history reaches a viewer who reads slowly anyway.
func TestStateLongerThanTheHistory(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 5000, Ahead: 1000})
		s.pad = strings.Repeat("x", 3000)
		for i := range 100 {
			s.touch(strings.Repeat("a", i+1))
		}
		v, err := ask(t, relay, s, anyState, nil)
		if err != nil {
			t.Fatal(err)
		}
		for len(v.text()) < len(s.last().all()) {
			if err := v.readSome(100); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		v.want(s.last().all())
		v.leave()
		<-time.After(6 * time.Second)
	})
}

func TestAllHistoriesTogetherAreBounded(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 50_000, TotalBytes: 100_000, Ahead: 4000})
		s.pad = strings.Repeat("x", 1000)
		var viewers []*viewer
		for i := range 20 {
			viewers = append(viewers, watch(t, relay, s, anyState+"&labelSelector="+strings.Repeat("a", i+1)))
		}
		for range 200 {
			s.touch("a")
			synctest.Wait()
			if got := relay.Stats().Bytes; got > 100_000 {
				t.Fatalf("got histories of %d bytes, want at most 100000", got)
			}
		}
		for _, v := range viewers {
			v.want(s.last().all())
			v.leave()
		}
		<-time.After(6 * time.Second)
	})
}

func TestWhoComesAfterTheHistoryWasTrimmedBeginsAnew(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 20_000, Ahead: 4000})
		s.pad = strings.Repeat("x", 1000)
		begin := s.touch("a")
		viewers := []*viewer{watch(t, relay, s, anyState), watch(t, relay, s, from(begin))}
		for range 100 {
			s.touch("a")
			synctest.Wait()
		}
		s.wantWatches(t, 2, 2)
		state, old := watch(t, relay, s, anyState), watch(t, relay, s, from(begin))
		s.wantWatches(t, 4, 4)
		state.want(s.watches[2].all())
		old.want(s.direct(begin))
		recent := watch(t, relay, s, from(s.version-1)) // that, the histories still have
		s.wantWatches(t, 4, 4)
		recent.want(s.direct(s.version - 1))
		relay.Drain()
		for _, v := range append(viewers, state, old, recent) {
			v.leave()
		}
	})
}
