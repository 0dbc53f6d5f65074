// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/lease/leasemem"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

func newWorld() world {
	return world{
		upstream: &fakeUpstream{refs: map[string]string{"refs/heads/main": "c1"}}, events: &eventLog{}, leases: leasemem.New(), fleet: &fleet{sets: map[string]*mirroring.Set{}},
		disk: &disk{}, gate: &gate{}, filler: &filler{}, meter: metricnoop.NewMeterProvider().Meter(""),
	}
}

func TestPollsAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		synctest.Wait()
		if got := get(t, set, "demo").State(); got.Phase != mirror.PhaseReady || got.Owner != "http://a" || got.Epoch != 1 {
			t.Errorf("got %+v after the first fetch, want ready, owned, epoch 1", got)
		}
		time.Sleep(time.Hour)
		stop()
		times := w.upstream.times
		if n := len(times); n < 50 || n > 72 {
			t.Errorf("got %d fetches in an hour, want about 60", n)
		}
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap < 45*time.Second || gap > 75*time.Second {
				t.Errorf("got %s between two polls, want 60 s ± 25 %%", gap)
			}
		}
		if got := len(w.events.all()); got != 2 {
			t.Errorf("got %d events, want one at the takeover and one for the clone", got)
		}
	})
}

// TestShorterIntervalCountsAtOnce changes the interval while the next poll is far away.
// TestNoticesAreNews publishes what a poll notices although no ref moved, once, and also that it is over.
// A notice is no problem, and a failed poll leaves it.
func TestNoticesAreNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		before := len(w.events.all())
		expect := func(events int, want ...string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			state, all := get(t, set, "demo").State(), w.events.all()
			if !slices.Equal(state.Notices, want) || len(all)-before != events || !slices.Equal(all[len(all)-1].State.Notices, want) {
				t.Errorf("got %q after %d events, the last of which has %q; want %q after %d", state.Notices, len(all)-before,
					all[len(all)-1].State.Notices, want, events)
			}
			if state.Problem != nil && state.Phase == mirror.PhaseReady {
				t.Errorf("got %+v, want no problem", state)
			}
		}
		expect(0)
		w.upstream.notice("One entry cannot be used.")
		expect(1, "One entry cannot be used.")
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable, Message: "Down."})
		expect(2, "One entry cannot be used.")
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		w.upstream.notice()
		time.Sleep(20 * time.Minute) // until the failure is over
		if state := get(t, set, "demo").State(); len(state.Notices) != 0 || state.Phase != mirror.PhaseReady {
			t.Errorf("got %+v, want it ready without notices", state)
		}
	})
}

func TestShorterIntervalCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		def := definition("demo")
		def.PollInterval = time.Hour
		set, stop := w.replica(t, "a", nil, def)
		defer stop()
		synctest.Wait()
		def.Version, def.PollInterval = 2, 10*time.Second
		set.Apply([]mirror.Definition{def})
		time.Sleep(13 * time.Second)
		synctest.Wait()
		if got := w.upstream.count(); got != 2 {
			t.Errorf("got %d fetches one interval after it became short, want 2", got)
		}
	})
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.takes = 10 * time.Second
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait()
		time.Sleep(5 * time.Second) // the clone is in the middle
		w.upstream.set(map[string]string{"refs/heads/main": "c2"}, nil)
		started := time.Now()
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				state, err := r.Refresh(t.Context(), true)
				if err != nil || state.Fetches != 2 {
					t.Errorf("got %+v (%v) from refresh, want the second fetch", state, err)
				}
				// 5 s until the clone ends, and 10 s for the fetch that began after the call
				if took := time.Since(started); took != 15*time.Second {
					t.Errorf("got an answer after %s, want 15s", took)
				}
			})
		}
		callers.Wait()
		if got := w.upstream.count(); got != 2 {
			t.Errorf("got %d fetches for five calls, want them to share one", got-1)
		}

		started = time.Now()
		if _, err := r.Refresh(t.Context(), true); err != nil || time.Since(started) != 10*time.Second {
			t.Errorf("got an answer after %s (%v), want a fetch at once: 10s", time.Since(started), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Refresh(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from an impatient call, want the context's error", err)
		}
	})
}

// TestFetchesSayWhoWantsThem tells the upstream which fetches were requested, also while another
// one was running.
func TestFetchesSayWhoWantsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.takes = 10 * time.Second
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		time.Sleep(5 * time.Second) // the clone is in the middle
		r := get(t, set, "demo")
		if _, err := r.Refresh(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.upstream.mu.Lock()
		defer w.upstream.mu.Unlock()
		if got := w.upstream.asked; len(got) < 3 || got[0] || !got[1] || slices.Contains(got[2:], true) {
			t.Errorf("got %v, want a clone, a fetch that was requested, and polls", got)
		}
	})
}

// TestBurstsShareAFetch refreshes as webhooks of many pushes do: the first is answered at once, and
// all others of the debounce time by one fetch at its end.
func TestBurstsShareAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait() // the clone is done
		for i := range 30 {
			if _, err := r.Refresh(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if want := 2 + i/10; w.upstream.count() != want { // the clone, the first, one for each second
				t.Fatalf("got %d fetches %d ms after the first push, want %d", w.upstream.count(), i*100, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamUnreachable, Message: "no answer"})
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait()
		state := r.State()
		if state.Phase != mirror.PhaseFailed || state.Problem.Reason != reason.UpstreamUnreachable {
			t.Errorf("got %+v, want failed and UPSTREAM_UNREACHABLE", state)
		}
		since := state.Problem.Since
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.upstream.count(); got < 40 || got > 600 {
			t.Errorf("got %d tries in an hour, want at most one a second at first and about two a minute later", got)
		}
		if got := r.State().Problem.Since; !got.Equal(since) {
			t.Errorf("got a problem since %s, want it to keep its beginning %s", got, since)
		}
		if _, err := r.Content(); !errors.Is(err, mirror.ErrNotReady) {
			t.Errorf("got %v, want ErrNotReady", err)
		}
		if got := len(w.events.all()); got != 2 {
			t.Errorf("got %d events for one lasting problem, want 2", got)
		}
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		time.Sleep(2 * time.Minute)
		if state := r.State(); state.Phase != mirror.PhaseReady || state.Problem != nil || state.Failures != 0 {
			t.Errorf("got %+v with the upstream back, want ready", state)
		}
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected, Message: "no"})
		time.Sleep(2 * time.Minute)
		if state := r.State(); state.Phase != mirror.PhaseStale || state.RefCount != 1 {
			t.Errorf("got %+v with the credential revoked, want stale with its refs", state)
		}
	})
}

// TestAnOutageIsLoggedOnce has an upstream that is away for hours, comes back, and goes away for
// another reason.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld()
		w.log = &log
		refs := map[string]string{"refs/heads/main": "c1"}
		w.upstream.set(refs, nil)
		_, stop := w.replica(t, "a", nil, definition("demo"))
		for _, err := range []error{
			&mirror.UpstreamError{Reason: reason.UpstreamUnreachable}, nil, &mirror.UpstreamError{Reason: reason.UpstreamAuthRejected},
		} {
			time.Sleep(time.Hour)
			w.upstream.set(refs, err)
		}
		time.Sleep(time.Hour)
		stop()
		for message, want := range map[string]int{
			"reason=" + reason.UpstreamUnreachable.String(): 1, "reason=" + reason.UpstreamAuthRejected.String(): 1, "fetch succeeds again": 1,
		} {
			if got := strings.Count(log.String(), message); got != want {
				t.Errorf("%q: got %d times, want %d, in:\n%s", message, got, want, log.String())
			}
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(nil, &mirror.UpstreamError{Reason: reason.UpstreamRateLimited, Message: "slow down", RetryAfter: 10 * time.Minute})
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		if _, err := get(t, set, "demo").Refresh(t.Context(), true); err != nil {
			t.Errorf("got %v from a refresh that will not be made, want the state", err)
		}
		time.Sleep(10*time.Minute - time.Second)
		if got := w.upstream.count(); got != 1 {
			t.Errorf("got %d fetches within Retry-After, want 1", got)
		}
		time.Sleep(5 * time.Minute)
		if got := w.upstream.count(); got != 2 {
			t.Errorf("got %d fetches after Retry-After, want 2", got)
		}
	})
}

func TestOneFetcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.takes = 3 * time.Second
		a, runA := w.member(t, "a", nil, definition("demo")) // alone, it takes what should be another's, and hands it over
		b, runB := w.member(t, "b", nil, definition("demo"))
		stopA, stopB := runA(), runB()
		time.Sleep(time.Hour)
		first, second := get(t, a, "demo"), get(t, b, "demo")
		stopFirst, stopSecond := stopA, stopB
		if first.Epoch() == 0 {
			first, second, stopFirst, stopSecond = second, first, stopB, stopA
		}
		if first.Epoch() != 1 || second.Epoch() != 0 {
			t.Errorf("got epochs %d and %d, want one owner", first.Epoch(), second.Epoch())
		}
		if url, err := second.Owner(t.Context()); err != nil || url != first.State().Owner {
			t.Errorf("got owner %q (%v), want %q", url, err, first.State().Owner)
		}
		if _, err := second.Refresh(t.Context(), false); !errors.Is(err, mirror.ErrNotOwner) {
			t.Errorf("got %v from a refresh at the wrong replica, want ErrNotOwner", err)
		}
		stopFirst()
		left := time.Now()
		time.Sleep(10 * time.Second)
		if second.Epoch() != 2 || w.upstream.times[len(w.upstream.times)-1].Sub(left) > 5*time.Second {
			t.Errorf("got epoch %d, want the other replica to fetch within seconds of a release", second.Epoch())
		}
		stopSecond()
		if w.upstream.most != 1 {
			t.Errorf("got %d fetches at once, want 1", w.upstream.most)
		}
		if !slices.IsSorted(w.upstream.epochs) {
			t.Errorf("got epochs %v, want them to rise", w.upstream.epochs)
		}
	})
}

func TestStaleEpochStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait()
		w.events.fail(mirror.ErrEpochStale)
		w.upstream.set(map[string]string{"refs/heads/main": "c2"}, nil)
		_, _ = r.Refresh(t.Context(), true)
		synctest.Wait() // what was fetched is published after the fetch is over
		w.events.fail(nil)
		time.Sleep(time.Minute)
		if got := r.Epoch(); got != 2 {
			t.Errorf("got epoch %d after a stale one was refused, want a new tenure with 2", got)
		}
		events := w.events.all()
		if last := events[len(events)-1]; last.Epoch != 2 {
			t.Errorf("got last event of epoch %d, want 2", last.Epoch)
		}
	})
}

func TestEventsWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		synctest.Wait()
		w.events.fail(fmt.Errorf("append: %w", mirror.ErrDependency))
		for _, name := range []string{"refs/heads/x", "refs/heads/y"} {
			w.upstream.set(map[string]string{"refs/heads/main": "c1", name: "c2"}, nil)
			if _, err := r.Refresh(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		before := len(w.events.all())
		w.events.fail(nil)
		time.Sleep(10 * time.Second)
		events := w.events.all()
		if len(events) != before+1 {
			t.Fatalf("got %d events after the log is back, want the two merged into one", len(events)-before)
		}
		got := events[before].Changed
		if want := []string{"refs/heads/x", "refs/heads/y"}; !slices.Equal(got, want) {
			t.Errorf("got changed refs %v, want %v", got, want)
		}
		if events[before].Sequence != 3 {
			t.Errorf("got sequence %d, want 3", events[before].Sequence)
		}
	})
}

func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		def := definition("demo")
		def.Suspended = true
		set, stop := w.replica(t, "a", map[string]mirror.Content{def.UID: {FreshAt: time.Now()}}, def)
		defer stop()
		time.Sleep(time.Hour)
		r := get(t, set, "demo")
		if got := w.upstream.count(); got != 0 || r.State().Phase != mirror.PhaseSuspended {
			t.Errorf("got %d fetches of a suspended repository (%+v), want none", got, r.State())
		}
		if _, err := r.Content(); err != nil {
			t.Errorf("got %v, want reads to go on", err)
		}
		def.Suspended, def.Version = false, 2
		set.Apply([]mirror.Definition{def})
		synctest.Wait()
		if got := w.upstream.count(); got != 1 {
			t.Errorf("got %d fetches after resuming, want one at once", got)
		}
		set.Apply(nil)
		synctest.Wait()
		if _, err := set.Get("demo"); !errors.Is(err, mirror.ErrUnknownRepository) {
			t.Errorf("got %v for a deleted repository, want ErrUnknownRepository", err)
		}
	})
}

func TestReplicasShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var defs []mirror.Definition
		for i := range 20 {
			defs = append(defs, definition(fmt.Sprint("demo-", i)))
		}
		a, stopA := w.replica(t, "a", nil, defs...)
		b, stopB := w.replica(t, "b", nil, defs...)
		time.Sleep(time.Minute)
		counts := []int{owned(a), owned(b)}
		if counts[0]+counts[1] != 20 || min(counts[0], counts[1]) < 5 {
			t.Errorf("got %v repositories per replica, want all 20, about evenly", counts)
		}
		stopA()
		time.Sleep(20 * time.Second)
		if got := owned(b); got != 20 {
			t.Errorf("got %d repositories at the survivor, want 20", got)
		}
		stopB()
	})
}

func owned(set *mirroring.Set) int {
	n := 0
	for _, r := range set.List() {
		if r.Epoch() != 0 {
			n++
		}
	}
	return n
}
