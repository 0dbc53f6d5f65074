// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package resolve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// world is a board, an upstream and a store in one.
type world struct {
	mu          sync.Mutex
	wanted      map[catalog.Source]bool
	resolutions map[catalog.Source]catalog.Resolution
	triggers    map[catalog.Source]*catalog.Trigger
	saved       map[catalog.Source]catalog.Resolution
	saveErr     error
	// order is the treatment of the latest answer, and loop the asking loop.
	order string
	loop  *resolve.Loop
	// stored is the content that other replicas stored.
	stored map[catalog.Source]catalog.Resolution
	asked  map[catalog.Source]int
	asking map[catalog.Source]int
	answer func(catalog.Source) (resolve.Answer, error)
	news   chan struct{}
	// refusal is why there is no room for an answer; reserved counts answers with room.
	refusal  string
	reserved int
}

func newWorld(sources ...catalog.Source) *world {
	w := &world{
		wanted: map[catalog.Source]bool{}, resolutions: map[catalog.Source]catalog.Resolution{}, triggers: map[catalog.Source]*catalog.Trigger{},
		saved: map[catalog.Source]catalog.Resolution{}, asked: map[catalog.Source]int{}, asking: map[catalog.Source]int{},
	}
	for _, source := range sources {
		w.wanted[source] = true
	}
	w.answers("one", nil)
	return w
}

// answers sets what every source holds from now on.
func (w *world) answers(content string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answersAsOf(time.Time{}, content, err)
}

// answersAsOf does so for a mirror that was last known to be fresh then. The caller holds the lock.
func (w *world) answersAsOf(fresh time.Time, content string, err error) {
	w.answer = func(catalog.Source) (resolve.Answer, error) {
		return resolve.Answer{Snapshot: catalog.Snapshot{Commit: content, Digest: digest.FromBytes([]byte(content))}, FreshAt: fresh}, err
	}
}

func (w *world) Resolve(ctx context.Context, source catalog.Source) (resolve.Answer, error) {
	w.mu.Lock()
	w.asked[source]++
	w.asking[source]++
	answer, both := w.answer, w.asking[source] > 1
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asking[source]--
	}()
	if both {
		return resolve.Answer{}, errors.New("asked twice at once")
	}
	select {
	case <-time.After(10 * time.Millisecond):
		return answer(source)
	case <-ctx.Done():
		return resolve.Answer{}, ctx.Err()
	}
}

func (w *world) Sources() []catalog.Source { return w.SourcesOf("") }

func (w *world) SourcesOf(repository string) []catalog.Source {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sources []catalog.Source
	for source := range w.wanted {
		if repository == "" || source.Repository == repository {
			sources = append(sources, source)
		}
	}
	return sources
}

func (w *world) Wanted(source catalog.Source) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted[source]
}

func (w *world) Resolution(source catalog.Source) catalog.Resolution {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resolutions[source]
}

func (w *world) RepositoryUID(name string) string { return name }

func (w *world) Resolved(_ context.Context, source catalog.Source, next catalog.Resolution, trigger *catalog.Trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolutions[source], w.triggers[source] = next, trigger
	w.order += "show "
}

func (w *world) Reserve(catalog.Source, *catalog.Snapshot) (release func(), refusal string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refusal != "" {
		return nil, w.refusal
	}
	w.reserved++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reserved--
	}, ""
}

func (w *world) SetMirror(string, *catalog.Mirror) {}
func (w *world) NewSources() <-chan struct{}       { return w.news }

func (w *world) SaveSnapshot(_ context.Context, _ string, source catalog.Source, resolution catalog.Resolution) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order += "save "
	if w.saveErr == nil {
		w.saved[source] = resolution
	}
	return w.saveErr
}

func (w *world) LoadSnapshots(context.Context) (map[catalog.Source]catalog.Resolution, error) {
	return nil, nil
}

func (w *world) PruneSnapshots(context.Context, int64, func(catalog.Source) bool) error { return nil }

func (w *world) SnapshotsOf(context.Context, []catalog.Source) (map[catalog.Source]catalog.Resolution, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored, nil
}

func (w *world) Revision() int64 { return 1 }

func (w *world) Stored(_ context.Context, source catalog.Source, stored catalog.Resolution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolutions[source] = stored
}

// asks has the source asked for once.
func (w *world) asks(t *testing.T, source catalog.Source) {
	t.Helper()
	if err := w.loop.Sync(t.Context(), []catalog.Source{source}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) count(source catalog.Source) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[source]
}

// run runs a loop over the world in a bubble of virtual time until test returns.
func run(t *testing.T, w *world, test func(t *testing.T, l *resolve.Loop)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w.news = make(chan struct{}, 1) // a channel of the bubble, or time would stop
		l := resolve.New(resolve.Params{
			Board: w, Upstream: w, Store: w, Logger: slog.New(slog.DiscardHandler),
			Workers: 4, Timeout: time.Second, ResyncEvery: time.Hour,
		})
		w.loop = l
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		pass(time.Second)
		test(t, l)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	})
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func branch(repository, name string) catalog.Source {
	return catalog.Source{Repository: repository, Ref: catalog.Ref{Kind: catalog.RefBranch, Value: name}}
}

func TestEventsConcernTheirSourcesOnly(t *testing.T) {
	t.Parallel()
	main, dev, head, other := branch("demo", "main"), branch("demo", "dev"), catalog.Source{Repository: "demo"}, branch("other", "main")
	tag := catalog.Source{Repository: "demo", Ref: catalog.Ref{Kind: catalog.RefTag, Value: "main"}}
	versions := catalog.Source{Repository: "demo", Ref: catalog.Ref{Kind: catalog.RefSemver, Value: "~1.4"}}
	chart := catalog.Source{Repository: "demo", Chart: "web", Ref: versions.Ref}
	w := newWorld(main, dev, head, other, tag, versions, chart)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		check := func(what string, want map[catalog.Source]int) {
			t.Helper()
			pass(time.Second)
			for source, n := range want {
				if got := w.count(source); got != n {
					t.Errorf("after %s: %v was asked for %d times, want %d", what, source, got, n)
				}
			}
		}
		check("the start", map[catalog.Source]int{main: 1, dev: 1, head: 1, other: 1, tag: 1, versions: 1})
		trigger := &catalog.Trigger{Traceparent: "trace"}
		l.Observe(resolve.Event{Repository: "demo", ChangedRefs: []string{"refs/heads/main"}, Trigger: trigger})
		check("a branch moved", map[catalog.Source]int{main: 2, dev: 1, head: 2, other: 1, tag: 1, versions: 1})
		if w.triggers[main] != trigger {
			t.Errorf("got trigger %v, want the event's", w.triggers[main])
		}
		l.Observe(resolve.Event{Repository: "demo", AllRefs: true})
		check("all refs", map[catalog.Source]int{main: 3, dev: 2, head: 3, other: 1, tag: 2})
		l.Observe(resolve.Event{Repository: "demo"})
		check("a change of health", map[catalog.Source]int{main: 3, dev: 2, head: 3, other: 1, tag: 2})
		w.mu.Lock()
		late := branch("late", "main")
		w.wanted[late] = true
		w.mu.Unlock()
		w.news <- struct{}{}
		check("a new source", map[catalog.Source]int{late: 1, main: 3})
		l.Observe(resolve.Event{Repository: "demo", ChangedRefs: []string{"refs/tags/v1.4.1"}})
		check("a new tag", map[catalog.Source]int{main: 3, dev: 2, head: 4, other: 1, tag: 2, versions: 3, chart: 2})
		l.Observe(resolve.Event{Repository: "demo", ChangedRefs: []string{"refs/tags/web/1.4.1"}})
		check("a new version of a chart", map[catalog.Source]int{main: 3, dev: 2, head: 5, other: 1, tag: 2, versions: 4, chart: 3})
		pass(2 * time.Hour)
		if got := w.count(other); got < 2 {
			t.Errorf("got %d questions, want a resync from time to time", got)
		}
	})
}

func TestFailuresKeepTheLastGood(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		state := func() (commit string, why reason.Reason) {
			r := w.Resolution(source)
			if r.Snapshot != nil {
				commit = r.Snapshot.Commit
			}
			if r.Problem != nil {
				why = r.Problem.Reason
			}
			return commit, why
		}
		for _, step := range []struct {
			content string
			err     error
			commit  string
			reason  reason.Reason
		}{
			{"one", nil, "one", 0},
			{"", &resolve.Failure{Reason: reason.DependencyUnavailable}, "one", 0},
			{"", &resolve.Failure{Reason: reason.RefNotFound, Message: "no"}, "one", reason.RefNotFound},
			{"", &resolve.Failure{Reason: reason.OwnerUnavailable}, "one", reason.RefNotFound},
			{"two", nil, "two", 0},
		} {
			w.answers(step.content, step.err)
			if err := l.Sync(t.Context(), []catalog.Source{source}); err != nil {
				t.Fatal(err)
			}
			if commit, why := state(); commit != step.commit || why != step.reason {
				t.Errorf("after %v: got %q with %q, want %q with %q", step.err, commit, why, step.commit, step.reason)
			}
		}
		if got := w.saved[source].Snapshot.Commit; got != "two" {
			t.Errorf("got %q stored, want two", got)
		}
	})
}

// TestLateness has all workers wait for an answer, while other sources become due.
func TestLateness(t *testing.T) {
	t.Parallel()
	sources := make([]catalog.Source, 6) // more than workers, and than the one that waits for a worker
	for i := range sources {
		sources[i] = branch(fmt.Sprint("demo-", i), "main")
	}
	w := newWorld(sources...)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		if got := l.Lateness(); got != 0 {
			t.Errorf("with nothing to do: got %v, want 0", got)
		}
		answer := make(chan struct{})
		w.mu.Lock()
		w.answer = func(catalog.Source) (resolve.Answer, error) {
			<-answer
			return resolve.Answer{}, &resolve.Failure{Reason: reason.Internal}
		}
		w.mu.Unlock()
		for _, source := range sources {
			l.Observe(resolve.Event{Repository: source.Repository, AllRefs: true})
		}
		pass(10 * time.Second)
		if got := l.Lateness(); got != 10*time.Second {
			t.Errorf("while all workers wait: got %v, want 10 s", got)
		}
		close(answer)
		pass(30 * time.Millisecond)
		if got := l.Lateness(); got != 0 {
			t.Errorf("once they have answers: got %v, want 0", got)
		}
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	w.answers("", &resolve.Failure{Reason: reason.RepositoryNotReady, RetryAfter: 10 * time.Second})
	run(t, w, func(t *testing.T, _ *resolve.Loop) {
		if p := w.Resolution(source).Problem; p == nil || p.Reason != reason.RepositoryNotReady {
			t.Errorf("got %v, want what it waits for", p)
		}
		pass(5 * time.Second)
		if got := w.count(source); got != 1 {
			t.Errorf("got %d questions within the delay that was asked for, want 1", got)
		}
		w.answers("one", nil)
		w.mu.Lock()
		w.saveErr = errors.New("database is down")
		w.mu.Unlock()
		pass(time.Minute)
		if r := w.Resolution(source); r.Snapshot == nil || r.Problem != nil {
			t.Errorf("got %+v, want it resolved", r)
		}
		w.mu.Lock()
		w.saveErr = nil
		w.mu.Unlock()
		pass(2 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.saved[source].Snapshot == nil {
			t.Error("the snapshot was not stored once the database came back")
		}
	})
}

func TestSyncGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	source := branch("demo", "main")
	w := newWorld(source)
	run(t, w, func(t *testing.T, l *resolve.Loop) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Sync(ctx, []catalog.Source{source}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		var syncs sync.WaitGroup
		for range 20 { // one source is asked for by one at a time
			syncs.Go(func() {
				if err := l.Sync(t.Context(), []catalog.Source{source}); err != nil {
					t.Errorf("sync: %v", err)
				}
			})
		}
		syncs.Wait()
		if p := w.Resolution(source).Problem; p != nil {
			t.Errorf("got %v, want no overlap", p)
		}
	})
}
