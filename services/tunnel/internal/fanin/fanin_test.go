// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
)

func newServer() *apiServer { return newAPIServer(rand.New(rand.NewPCG(1, 2))) }

// run runs a test in virtual time, in which everything has ended at the end.
func run(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

func (v *viewer) want(want string) {
	v.t.Helper()
	synctest.Wait()
	if got := v.text(); got != want {
		v.t.Errorf("got %q, want %q", got, want)
	}
}

// wantEnd checks how the viewer's watch ended. Nil means that it continues.
func (v *viewer) wantEnd(want error) {
	v.t.Helper()
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !errors.Is(v.err, want) || (want == nil) != (v.err == nil) {
		v.t.Errorf("got end %v, want %v", v.err, want)
	}
}

func (s *apiServer) wantWatches(t *testing.T, begun, open int) {
	t.Helper()
	synctest.Wait()
	if gotBegun, gotOpen := s.counts(); gotBegun != begun || gotOpen != open {
		t.Errorf("got %d watches begun and %d open, want %d and %d", gotBegun, gotOpen, begun, open)
	}
}

func TestFiftyViewersCostOneWatch(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.touch("a")
		var viewers []*viewer
		for range 50 {
			viewers = append(viewers, watch(t, relay, s, anyState))
			s.touch("a")
		}
		s.wantWatches(t, 1, 1)
		for _, v := range viewers {
			v.want(s.last().all())
			if v.watch.Connection() != "0" {
				t.Errorf("got connection %q, want that of the shared watch", v.watch.Connection())
			}
		}
		if got := relay.Stats(); got.Upstreams != 1 || got.Viewers != 50 || got.Shared != 49 {
			t.Errorf("got %+v, want 1 watch with 50 viewers", got)
		}
		for _, v := range viewers {
			v.leave()
		}
		<-time.After(6 * time.Second)
		s.wantWatches(t, 1, 0)
	})
}

// TestNewestStateIsNoOlderThanItsQuestion changes an object, and asks for the newest state while an
// earlier watch is running. kubectl rollout status asks so, and ends with the first state that
// satisfies it.
func TestNewestStateIsNoOlderThanItsQuestion(t *testing.T) {
	for name, tt := range map[string]struct {
		url   string
		shows func(*apiServer) string
	}{
		"state":         {path, (*apiServer).state},
		"empty version": {path + "&resourceVersion=", (*apiServer).state},
		"streamed list": {streamed, (*apiServer).list},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s, relay := newServer(), fanin.New(fanin.Params{})
				s.touch("a")
				first := watch(t, relay, s, tt.url)
				first.want(tt.shows(s))
				s.touch("a")
				second := watch(t, relay, s, tt.url)
				second.want(tt.shows(s))
				s.touch("a")
				third := watch(t, relay, s, tt.url)
				third.want(tt.shows(s))
				s.wantWatches(t, 3, 3)
				first.leave()
				second.leave()
				third.leave()
				<-time.After(6 * time.Second)
				s.wantWatches(t, 3, 0)
			})
		})
	}
}

// TestEachStreamedListHasAWatchOfItsOwn has each viewer see the state of its own time and all
// changes after that, however many watch already.
func TestEachStreamedListHasAWatchOfItsOwn(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		type listed struct {
			*viewer

			state   string
			version uint64
		}
		var viewers []listed
		for i := range 50 {
			s.touch(fmt.Sprint("o", i%7))
			viewers = append(viewers, listed{watch(t, relay, s, streamed), s.list(), s.version})
			if i%3 > 0 {
				s.remove("o3")
			}
		}
		s.bookmark()
		s.touch("o1")
		s.wantWatches(t, 50, 50)
		for _, v := range viewers {
			v.want(v.state + s.direct(v.version))
		}
		if got := relay.Stats(); got.Upstreams != 50 || got.Viewers != 50 || got.Shared != 0 {
			t.Errorf("got %+v, want a watch for each of 50 viewers", got)
		}
		s.endAll(errBroken)
		for _, v := range viewers {
			v.wantEnd(errBroken)
			v.leave()
		}
		synctest.Wait()
		if got := relay.Stats(); got.Upstreams != 0 || got.Viewers != 0 || got.Bytes != 0 {
			t.Errorf("got %+v at the end, want nothing", got)
		}
	})
}

// TestStalledStreamedListHoldsNobodyBack has one viewer read a part of its list, as far ahead as it
// may, and another all of its own.
func TestStalledStreamedListHoldsNobodyBack(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Ahead: 1})
		s.pad = strings.Repeat("x", 3000)
		for _, name := range []string{"a", "b", "c", "d"} {
			s.touch(name)
		}
		slow, err := ask(t, relay, s, streamed, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fast := watch(t, relay, s, streamed)
		state, version := s.list(), s.version
		s.touch("b")
		fast.want(state + s.direct(version))
		go slow.readAll()
		slow.want(state + s.direct(version))
		s.wantWatches(t, 2, 2)
		slow.leave()
		fast.leave()
		s.wantWatches(t, 2, 0)
	})
}

// TestStreamedListKeepsItsWatchWhenEarlierOnesEnd has a stopped viewer hold the events that an
// earlier watch has shown before it ended.
func TestStreamedListKeepsItsWatchWhenEarlierOnesEnd(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.touch("a")
		stalled, err := ask(t, relay, s, streamed, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.wantWatches(t, 1, 1)
		s.last().end(io.EOF)
		synctest.Wait() // until the hub knows
		late := watch(t, relay, s, streamed)
		state, version := s.list(), s.version
		late.want(state)
		s.touch("a")
		late.want(state + s.direct(version))
		late.wantEnd(nil)
		stalled.leave()
		late.leave()
		<-time.After(6 * time.Second)
	})
}

// TestNewestStateIsSharedUntilTheClusterIsAsked has many come while the first one waits for its
// turn.
func TestNewestStateIsSharedUntilTheClusterIsAsked(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.gate = make(chan struct{})
		s.touch("a")
		viewers := make(chan *viewer)
		for range 5 {
			go func() { viewers <- watch(t, relay, s, path) }()
		}
		synctest.Wait()
		s.touch("a")
		close(s.gate)
		for range 5 {
			v := <-viewers
			v.want(s.state())
			defer v.leave()
		}
		s.wantWatches(t, 1, 1)
		relay.Drain()
	})
}

// TestViewersOfDifferentVersionsWaitForOneAnswer has viewers of different versions come before the
// cluster has answered the first of them.
func TestViewersOfDifferentVersionsWaitForOneAnswer(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		first, second := s.touch("a"), s.touch("b")
		s.gate = make(chan struct{})
		viewers := make(chan *viewer)
		for _, version := range []uint64{first, second, first, second + 10} {
			go func() { viewers <- watch(t, relay, s, from(version)) }()
			synctest.Wait()
		}
		close(s.gate)
		for range 4 {
			v := <-viewers
			defer v.leave()
		}
		s.wantWatches(t, 1, 1)
		if got := relay.Stats(); got.Viewers != 4 || got.Shared != 3 {
			t.Errorf("got %+v, want 4 viewers of one watch", got)
		}
		relay.Drain()
	})
}

// TestViewersWaitForTheNextAnswerWhenTheirOpenerLeaves has the first of several viewers with
// different versions leave before the answer.
func TestViewersWaitForTheNextAnswerWhenTheirOpenerLeaves(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		first, second := s.touch("a"), s.touch("b")
		s.gate = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		opener := make(chan error)
		go func() {
			_, err := ask(t, relay, s, from(first), func(r *http.Request) { *r = *r.WithContext(ctx) })
			opener <- err
		}()
		synctest.Wait()
		viewers := make(chan *viewer)
		for _, version := range []uint64{second, second + 10} {
			go func() { viewers <- watch(t, relay, s, from(version)) }()
			synctest.Wait()
		}
		leave()
		if err := <-opener; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the opener's request", err)
		}
		s.gate <- struct{}{} // answers the one who has left
		synctest.Wait()
		if got := relay.Stats().Upstreams; got != 1 {
			t.Errorf("got %d watches, want the one that both viewers wait for", got)
		}
		close(s.gate)
		for range 2 {
			v := <-viewers
			defer v.leave()
		}
		relay.Drain()
	})
}

func TestListsOfDifferentTimesShareOneWatch(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		first := s.touch("a")
		early := watch(t, relay, s, from(first))
		second := s.touch("a")
		ahead := watch(t, relay, s, from(second+10)) // a list from a server that is ahead of the watch's
		s.touch("b")
		late := watch(t, relay, s, from(second))
		between := watch(t, relay, s, from(second-1))
		for s.touch("c") < second+20 {
		}
		s.wantWatches(t, 1, 1)
		early.want(s.direct(first))
		late.want(s.direct(second))
		between.want(s.direct(second - 1))
		ahead.want(s.direct(second + 10))
		older := watch(t, relay, s, from(first-1))
		s.wantWatches(t, 2, 2)
		older.want(s.direct(first - 1))
		for _, v := range []*viewer{early, late, between, ahead, older} {
			v.leave()
		}
		<-time.After(6 * time.Second)
	})
}

// The state comes in no order: a watch cannot begin at a version in it.
func TestNobodyBeginsInTheMiddleOfTheState(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.touch("b")
		version := s.touch("c")
		s.touch("a") // first in the state, and newest
		state := watch(t, relay, s, path)
		synctest.Wait()
		v := watch(t, relay, s, from(version))
		s.wantWatches(t, 2, 2)
		v.want(s.direct(version))
		changed := s.touch("a")
		late := watch(t, relay, s, from(changed))
		s.touch("b")
		s.wantWatches(t, 2, 2)
		late.want(s.direct(changed))
		for _, v := range []*viewer{state, v, late} {
			v.leave()
		}
		<-time.After(6 * time.Second)
	})
}

func TestWhatDiffersIsNotShared(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		header := func(name, value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set(name, value) }
		}
		for i, other := range []struct {
			url    string
			change func(*http.Request)
		}{
			{anyState, nil},
			{anyState, header("Impersonate-User", "bob")},
			{anyState, header("Impersonate-Group", "admins")},
			{anyState, header("Impersonate-Uid", "1")},
			{anyState, header("Impersonate-Extra-Scope", "x")},
			{anyState, header("Accept", "application/json;as=Table")},
			{anyState, header("Accept-Encoding", "gzip")}, // a viewer that asks for it may get it
			{anyState, header("X-Unknown", "x")},
			{anyState + "&labelSelector=x", nil},
			{anyState + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil},
			{path + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", nil},
			{strings.Replace(anyState, "configmaps", "secrets", 1), nil},
		} {
			v, err := ask(t, relay, s, other.url, other.change)
			if err != nil {
				t.Fatal(err)
			}
			defer v.leave()
			s.wantWatches(t, i+1, i+1)
		}
		same, err := ask(t, relay, s, anyState+"&timeoutSeconds=9", func(r *http.Request) {
			r.Header.Set("Traceparent", "00-1-2-01")
			r.Header.Set("Sec-Fetch-Mode", "cors")
		})
		if err != nil {
			t.Fatal(err)
		}
		defer same.leave()
		s.wantWatches(t, 12, 12)
		relay.Drain()
	})
}

func TestClusterIsAskedWithoutWhatIsOneViewers(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: time.Nanosecond})
		v, err := ask(t, relay, s, path+"&timeoutSeconds=30&fieldSelector=a%3Db", func(r *http.Request) {
			r.Header.Set("Accept-Encoding", "gzip")
		})
		if err != nil {
			t.Fatal(err)
		}
		asked := s.last().req
		if got, want := asked.URL.RawQuery, "watch=true&fieldSelector=a%3Db"; got != want {
			t.Errorf("got query %q, want %q", got, want)
		}
		if got := asked.Header.Get("Accept-Encoding"); got != "gzip" {
			t.Errorf("got Accept-Encoding %q, want gzip", got)
		}
		v.leave()
		<-time.After(time.Second)
	})
}
