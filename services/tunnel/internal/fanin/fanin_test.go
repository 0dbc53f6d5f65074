// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin_test

import (
	"context"
	"encoding/binary"
	"errors"
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

// wantEnd checks how the viewer's watch ended. Nil means that it goes on.
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
			viewers = append(viewers, watch(t, relay, s, path))
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

// The state comes in no order: a version among it is no place to begin.
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
			{path, nil},
			{path, header("Impersonate-User", "bob")},
			{path, header("Impersonate-Group", "admins")},
			{path, header("Impersonate-Uid", "1")},
			{path, header("Impersonate-Extra-Scope", "x")},
			{path, header("Accept", "application/json;as=Table")},
			{path, header("Accept-Encoding", "gzip")}, // whoever asks for it may get it
			{path, header("X-Unknown", "x")},
			{path + "&labelSelector=x", nil},
			{path + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil},
			{path + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", nil},
			{strings.Replace(path, "configmaps", "secrets", 1), nil},
		} {
			v, err := ask(t, relay, s, other.url, other.change)
			if err != nil {
				t.Fatal(err)
			}
			defer v.leave()
			s.wantWatches(t, i+1, i+1)
		}
		same, err := ask(t, relay, s, path+"&timeoutSeconds=9", func(r *http.Request) {
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

func TestEachViewerHasItsOwnTimeout(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		short := watch(t, relay, s, path+"&timeoutSeconds=10")
		long := watch(t, relay, s, path+"&timeoutSeconds=600")
		<-time.After(9 * time.Second)
		short.wantEnd(nil)
		<-time.After(2 * time.Second)
		short.wantEnd(io.EOF)
		s.touch("a")
		long.want(s.last().all())
		long.wantEnd(nil)
		s.wantWatches(t, 1, 1)
		short.leave()
		long.leave()
		<-time.After(6 * time.Second)
	})
}

func TestReloadedPageFindsItsWatch(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: 5 * time.Second})
		for range 3 {
			v := watch(t, relay, s, path)
			v.leave()
			<-time.After(4 * time.Second)
			s.wantWatches(t, 1, 1)
		}
		<-time.After(2 * time.Second)
		s.wantWatches(t, 1, 0)
		v := watch(t, relay, s, path)
		s.wantWatches(t, 2, 1)
		relay.Drain()
		v.leave()
		s.wantWatches(t, 2, 0)
	})
}

func TestDrainEndsWhatNobodyWatches(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{Linger: time.Hour})
		watch(t, relay, s, path).leave()
		watched := watch(t, relay, s, from(7))
		s.wantWatches(t, 2, 2)
		relay.Drain()
		s.wantWatches(t, 2, 1)
		watched.wantEnd(nil)
		watched.leave()
		s.wantWatches(t, 2, 0)
	})
}

func TestAllViewersEndAsTheClusterEnds(t *testing.T) {
	for name, end := range map[string]error{"well": io.EOF, "badly": errBroken} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s, relay := newServer(), fanin.New(fanin.Params{})
				s.touch("a")
				first, second := watch(t, relay, s, path), watch(t, relay, s, path)
				stalled, err := ask(t, relay, s, path, nil)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				s.endAll(end)
				first.wantEnd(end)
				second.wantEnd(end)
				go stalled.readAll() // reads what was there before
				stalled.want(s.last().all())
				stalled.wantEnd(end)
				again := watch(t, relay, s, path)
				s.wantWatches(t, 2, 1)
				relay.Drain()
				for _, v := range []*viewer{first, second, stalled, again} {
					v.leave()
				}
			})
		})
	}
}

func TestStalledViewerHoldsNobodyBack(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 50_000, Ahead: 5000})
		s.pad = strings.Repeat("x", 1000)
		s.touch("a")
		stalled, err := ask(t, relay, s, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := stalled.readSome(100); err != nil { // it has begun an event
			t.Fatal(err)
		}
		fast := watch(t, relay, s, path)
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

// A state that is longer than the history reaches a viewer who reads slowly all the same.
func TestStateLongerThanTheHistory(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 5000, Ahead: 1000})
		s.pad = strings.Repeat("x", 3000)
		for i := range 100 {
			s.touch(strings.Repeat("a", i+1))
		}
		v, err := ask(t, relay, s, path, nil)
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
			viewers = append(viewers, watch(t, relay, s, path+"&labelSelector="+strings.Repeat("a", i+1)))
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

func TestErrorGoesToThoseWhoWaitedForIt(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		s.compacted, s.version = 100, 100
		hold := make(chan struct{})
		held := func(ctx context.Context) (fanin.Upstream, error) {
			<-hold
			return s.open(ctx)
		}
		results := make(chan string, 4)
		for _, version := range []uint64{5, 5, 100, 100} {
			go func() {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, from(version), nil)
				w := relay.Watch("demo", held)
				defer w.Release()
				res, err := w.RoundTrip(req)
				if err != nil {
					results <- err.Error()
					return
				}
				body := ""
				if res.StatusCode != http.StatusOK {
					all, _ := io.ReadAll(res.Body)
					body = string(all)
				}
				results <- res.Status + body
				_ = res.Body.Close()
			}()
			synctest.Wait()
		}
		close(hold)
		got := map[string]int{}
		for range 4 {
			got[<-results]++
		}
		if got["200 OKtoo old"] != 2 || got["200 OK"] != 2 {
			t.Errorf("got %v, want the error for the two who asked for version 5", got)
		}
		s.wantWatches(t, 2, 1)
		<-time.After(6 * time.Second)
	})
}

func TestFailureToOpenIsTold(t *testing.T) {
	run(t, func(t *testing.T) {
		full := errors.New("full")
		relay := fanin.New(fanin.Params{})
		w := relay.Watch("demo", func(context.Context) (fanin.Upstream, error) { return nil, full })
		defer w.Release()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		_, err := w.RoundTrip(req)
		var open *fanin.OpenError
		if !errors.As(err, &open) || !errors.Is(err, full) {
			t.Errorf("got %v, want an OpenError of the opener's error", err)
		}
	})
}

// What is no watch, or cannot be shared, is each caller's own.
func TestOtherAnswersAreNotShared(t *testing.T) {
	for name, header := range map[string]http.Header{
		"text":       {"Content-Type": {"text/plain"}},
		"compressed": {"Content-Encoding": {"gzip"}},
		"no type":    {"Content-Type": {""}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T) {
				s, relay := newServer(), fanin.New(fanin.Params{})
				s.header = header
				first, second := watch(t, relay, s, path), watch(t, relay, s, path)
				s.touch("a")
				s.wantWatches(t, 2, 2)
				first.want(s.last().all())
				second.want(s.last().all())
				first.leave()
				s.wantWatches(t, 2, 1)
				second.leave()
				s.wantWatches(t, 2, 0)
			})
		})
	}
}

func TestMalformedQuestionsAreTheClusters(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{})
		for i, query := range []string{
			"&timeoutSeconds=soon", "&timeoutSeconds=1&timeoutSeconds=2", "&resourceVersion=1&resourceVersion=2", "&x=%zz", "&a;b",
		} {
			v := watch(t, relay, s, path+query)
			if got := s.last().req.URL.RawQuery; got != "watch=true"+query {
				t.Errorf("got query %q, want watch=true%s", got, query)
			}
			v.leave()
			s.wantWatches(t, i+1, 0)
		}
	})
}

func TestCallerWhoLeavesEarly(t *testing.T) {
	run(t, func(t *testing.T) {
		opened := make(chan error, 1)
		relay := fanin.New(fanin.Params{})
		w := relay.Watch("demo", func(ctx context.Context) (fanin.Upstream, error) {
			<-ctx.Done()
			opened <- ctx.Err()
			return nil, ctx.Err()
		})
		defer w.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		if _, err := w.RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		if err := <-opened; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the request to end with its only caller", err)
		}
	})
}

// raw feeds a watch byte by byte and returns what its viewer has.
func raw(t *testing.T, contentType string, params fanin.Params, pieces ...string) (s *apiServer, relay *fanin.Relay, v *viewer) {
	t.Helper()
	s, relay = newServer(), fanin.New(params)
	s.header = http.Header{"Content-Type": {contentType}}
	v = watch(t, relay, s, from(1))
	for _, piece := range pieces {
		s.last().sendAll(piece)
		synctest.Wait()
	}
	return s, relay, v
}

func TestEventWithoutLineEndIsDeliveredAtOnce(t *testing.T) {
	run(t, func(t *testing.T) {
		s, _, v := raw(t, "application/json", fanin.Params{}, `{"type":"ADDED","object":{}`, `}`)
		v.want(s.last().all())
		s.last().sendAll("\n" + `{"type":"AD`)
		v.want(`{"type":"ADDED","object":{}}` + "\n")
		s.endAll(io.EOF)
		v.want(s.last().all())
		v.leave()
	})
}

func TestProtobufEventsAreShared(t *testing.T) {
	run(t, func(t *testing.T) {
		event := func(size int) string {
			return string(binary.BigEndian.AppendUint32(nil, uint32(size))) + strings.Repeat("p", size)
		}
		s, relay, v := raw(t, "application/vnd.kubernetes.protobuf;stream=watch", fanin.Params{FrameBytes: 100},
			event(7)+event(0)+event(5)[:3], event(5)[3:], event(20)[:10])
		v.want(event(7) + event(0) + event(5))
		late := watch(t, relay, s, from(1))
		other := watch(t, relay, s, from(2)) // not known to be in there
		s.wantWatches(t, 2, 2)
		all := s.watches[0]
		all.sendAll(event(20)[10:] + event(1000)[:300])
		synctest.Wait()
		all.sendAll(event(1000)[300:] + event(3))
		v.want(all.all())
		late.want(all.all())
		relay.Drain()
		for _, v := range []*viewer{v, late, other} {
			v.leave()
		}
	})
}

func TestEventThatIsTooLongIsPassedOnInPieces(t *testing.T) {
	run(t, func(t *testing.T) {
		long := `{"type":"ADDED","object":{"x":"` + strings.Repeat("x", 100_000) + `"}}` + "\n"
		s, relay, v := raw(t, "application/json", fanin.Params{FrameBytes: 1000, HistoryBytes: 20_000, Ahead: 1000}, long[:5000])
		first := s.last()
		stalled, err := ask(t, relay, s, from(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := stalled.readSome(10); err != nil {
			t.Fatal(err)
		}
		first.sendAll(long[5000:90_000])
		synctest.Wait()
		if got := len(v.text()); got < 80_000 {
			t.Errorf("got %d bytes of the event, want what has arrived but for the last piece", got)
		}
		first.sendAll(long[90_000:])
		v.want(first.all())
		go stalled.readAll() // it has lost the rest of what it began, and must not take it for whole
		synctest.Wait()
		if stalled.err == nil || errors.Is(stalled.err, io.EOF) {
			t.Errorf("got %v, want an error", stalled.err)
		}
		relay.Drain()
		v.leave()
		stalled.leave()
	})
}

func TestWhoComesAfterTheHistoryWasTrimmedBeginsAnew(t *testing.T) {
	run(t, func(t *testing.T) {
		s, relay := newServer(), fanin.New(fanin.Params{HistoryBytes: 20_000, Ahead: 4000})
		s.pad = strings.Repeat("x", 1000)
		begin := s.touch("a")
		viewers := []*viewer{watch(t, relay, s, path), watch(t, relay, s, from(begin))}
		for range 100 {
			s.touch("a")
			synctest.Wait()
		}
		s.wantWatches(t, 2, 2)
		state, old := watch(t, relay, s, path), watch(t, relay, s, from(begin))
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
