// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package intake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/delivery/intake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// store notes the batches that it is given, and takes a second for each unless it is quick.
type store struct {
	quick   bool
	mu      sync.Mutex
	batches [][]string
	saved   []string
	refuse  func(instance string) error
	hang    bool
}

func (s *store) SaveReports(ctx context.Context, reports []catalog.AgentReport) ([]catalog.Receipt, error) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	wait := time.After(time.Second)
	switch {
	case hang:
		wait = nil
	case s.quick:
		wait = time.After(time.Millisecond)
	}
	select {
	case <-wait:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []string
	for _, report := range reports {
		batch = append(batch, report.Instance)
	}
	s.batches = append(s.batches, batch)
	receipts := make([]catalog.Receipt, len(reports))
	for i, name := range batch {
		if s.refuse != nil && s.refuse(name) != nil {
			return nil, s.refuse(name)
		}
		receipts[i].Current = name
	}
	s.saved = append(s.saved, batch...)
	return receipts, nil
}

// withQueue runs test in a bubble beside a running queue.
func withQueue(t *testing.T, s *store, limit int, test func(t *testing.T, q *intake.Queue, stop func())) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stored := 0
		q := intake.New(intake.Params{Store: s, MaxWaiting: limit, Stored: func(context.Context) { stored++ }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Run(ctx) }()
		stop := sync.OnceFunc(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the end of the context", err)
			}
		})
		defer stop()
		test(t, q, stop)
		if len(s.saved) > 0 && stored == 0 {
			t.Error("nobody was told that reports are stored")
		}
	})
}

// caller hands in a report and keeps the answer.
type caller struct {
	receipt catalog.Receipt
	err     error
	done    chan struct{}
}

func (c *caller) end() error {
	<-c.done
	return c.err
}

func call(ctx context.Context, q *intake.Queue, name string, bytes int) *caller {
	return take(ctx, q, catalog.AgentReport{Instance: name, Bytes: bytes})
}

func take(ctx context.Context, q *intake.Queue, report catalog.AgentReport) *caller {
	c := &caller{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.receipt, c.err = q.Take(ctx, report)
	}()
	synctest.Wait()
	return c
}

func TestReportsThatArriveTogetherAreOneBatch(t *testing.T) {
	s := &store{}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, _ func()) {
		calls := []*caller{call(t.Context(), q, "lone", 0)}
		for i := range 300 {
			calls = append(calls, call(t.Context(), q, fmt.Sprint(i), 0))
		}
		<-time.After(999 * time.Millisecond)
		synctest.Wait()
		select {
		case <-calls[0].done:
			t.Error("got an answer before the report was durable")
		default:
		}
		for _, c := range calls {
			<-c.done
		}
		var sizes []int
		for _, batch := range s.batches {
			sizes = append(sizes, len(batch))
		}
		if !slices.Equal(sizes, []int{1, 256, 44}) {
			t.Errorf("got batches of %v, want the lone one at once, and the others together", sizes)
		}
		for i, c := range calls[1:] {
			if c.err != nil || c.receipt.Current != fmt.Sprint(i) || s.saved[i+1] != fmt.Sprint(i) {
				t.Errorf("report %d: got %+v, %v, want its own receipt, in order", i, c.receipt, c.err)
			}
		}
	})
}

// TestOverviewsWaitForOthers has clusters report about themselves alone, which costs at most ten
// transactions a second.
func TestOverviewsWaitForOthers(t *testing.T) {
	s := &store{}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, stop func()) {
		overview := func(name string) *caller {
			return take(t.Context(), q, catalog.AgentReport{Instance: name, Cluster: &catalog.ClusterReport{Nodes: 3}})
		}
		began := time.Now()
		calls := []*caller{overview("a")}
		<-time.After(60 * time.Millisecond)
		calls = append(calls, overview("b"))
		<-calls[0].done
		<-calls[1].done
		if took := time.Since(began); took != 1100*time.Millisecond {
			t.Errorf("got an answer after %v, want it after 100 ms and the second that the store takes", took)
		}
		began = time.Now()
		calls = append(calls, overview("c"), call(t.Context(), q, "service", 0))
		<-calls[2].done
		if took := time.Since(began); took != time.Second {
			t.Errorf("got an answer after %v, want one that goes with the report that cannot wait", took)
		}
		began = time.Now()
		calls = append(calls, overview("d"))
		<-calls[4].done
		if took := time.Since(began); took != 1100*time.Millisecond {
			t.Errorf("got an answer after %v, want a patience of its own for each batch", took)
		}
		began = time.Now()
		<-take(t.Context(), q, catalog.AgentReport{Instance: "full", Full: true, Cluster: &catalog.ClusterReport{}}).done
		if took := time.Since(began); took != time.Second {
			t.Errorf("got an answer after %v, want none to wait that says everything", took)
		}
		var got []string
		for _, batch := range s.batches {
			got = append(got, strings.Join(batch, " "))
		}
		if want := []string{"a b", "c service", "d", "full"}; !slices.Equal(got, want) {
			t.Errorf("got batches %q, want %q", got, want)
		}
		for _, c := range calls {
			if c.err != nil {
				t.Errorf("got %v, want every report stored", c.err)
			}
		}
		last := overview("e")
		stop()
		if err := last.end(); !errors.Is(err, catalog.ErrUnavailable) {
			t.Errorf("got %v, want unavailable: nobody stores any more", err)
		}
	})
}

// TestAFleetOfOverviewsIsCheap has a thousand clusters change every second, each at a moment of its
// own.
func TestAFleetOfOverviewsIsCheap(t *testing.T) {
	s := &store{quick: true}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, _ func()) {
		const clusters, seconds = 1000, 5
		var agents sync.WaitGroup
		for i := range clusters {
			agents.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for range seconds {
					if _, err := q.Take(t.Context(), catalog.AgentReport{Instance: fmt.Sprint(i), Cluster: &catalog.ClusterReport{}}); err != nil {
						t.Error(err)
					}
					<-tick.C
				}
			})
		}
		agents.Wait()
		if len(s.saved) != clusters*seconds || len(s.batches) > 10*(seconds+1) {
			t.Errorf("got %d reports in %d transactions, want %d in 10 a second at the most", len(s.saved), len(s.batches), clusters*seconds)
		}
	})
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	s := &store{}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, _ func()) {
		first := call(t.Context(), q, "lone", 0)
		var calls []*caller
		for i := range 5 {
			calls = append(calls, call(t.Context(), q, fmt.Sprint(i), 3<<20))
		}
		huge := call(t.Context(), q, "huge", 100<<20)
		<-first.done
		for _, c := range calls {
			<-c.done
		}
		if want := 1 + 3; len(s.batches) != want {
			t.Errorf("got %d batches, want %d of 8 MiB at the most", len(s.batches), want)
		}
		if err := huge.end(); !errors.Is(err, intake.ErrBusy) {
			t.Errorf("got %v, want busy: it does not fit beside others", err)
		}
		if err := call(t.Context(), q, "huge", 100<<20).end(); err != nil {
			t.Errorf("got %v, want it taken when nothing else waits", err)
		}
	})
}

func TestOneBadReportFailsAlone(t *testing.T) {
	bad := errors.New("refused")
	s := &store{refuse: func(name string) error {
		if name == "7" || name == "20" {
			return bad
		}
		return nil
	}}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, _ func()) {
		calls := []*caller{call(t.Context(), q, "lone", 0)}
		var want []string
		for i := range 64 {
			calls = append(calls, call(t.Context(), q, fmt.Sprint(i), 0))
			want = append(want, fmt.Sprint(i))
		}
		for i, c := range calls {
			<-c.done
			isBad := i-1 == 7 || i-1 == 20
			if isBad != errors.Is(c.err, bad) || !isBad && c.err != nil {
				t.Errorf("report %d: got %v, want %v failed", i-1, c.err, isBad)
			}
		}
		want = slices.DeleteFunc(want, func(name string) bool { return name == "7" || name == "20" })
		if got := s.saved[1:]; !slices.Equal(got, want) {
			t.Errorf("got %v stored, want the others, in order", got)
		}
	})
}

func TestDatabaseAway(t *testing.T) {
	s := &store{refuse: func(string) error { return fmt.Errorf("connect: %w", catalog.ErrUnavailable) }}
	withQueue(t, s, 0, func(t *testing.T, q *intake.Queue, _ func()) {
		calls := []*caller{call(t.Context(), q, "lone", 0), call(t.Context(), q, "a", 0), call(t.Context(), q, "b", 0)}
		for _, c := range calls {
			<-c.done
			if !errors.Is(c.err, catalog.ErrUnavailable) {
				t.Errorf("got %v, want unavailable", c.err)
			}
		}
		if len(s.batches) != 2 {
			t.Errorf("got %d calls of the store, want 2: halving helps nobody", len(s.batches))
		}
		s.mu.Lock()
		s.hang = true
		s.mu.Unlock()
		hung := call(t.Context(), q, "c", 0)
		before := time.Now()
		<-hung.done
		if took := time.Since(before); !errors.Is(hung.err, catalog.ErrUnavailable) || took != 30*time.Second {
			t.Errorf("got %v after %v, want unavailable after 30 s", hung.err, took)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	s := &store{}
	withQueue(t, s, 3, func(t *testing.T, q *intake.Queue, stop func()) {
		underWay := call(t.Context(), q, "lone", 0)
		gone, hangUp := context.WithCancel(t.Context())
		calls := []*caller{call(t.Context(), q, "a", 0), call(gone, q, "b", 0), call(t.Context(), q, "c", 0)}
		if err := call(t.Context(), q, "d", 0).end(); !errors.Is(err, intake.ErrBusy) {
			t.Errorf("got %v, want busy", err)
		}
		hangUp()
		<-calls[1].done
		if !errors.Is(calls[1].err, context.Canceled) {
			t.Errorf("got %v, want the caller's own end", calls[1].err)
		}
		<-underWay.done
		<-calls[0].done
		<-calls[2].done
		if want := []string{"lone", "a", "c"}; !slices.Equal(s.saved, want) {
			t.Errorf("got %v stored, want %v: b hung up before its turn", s.saved, want)
		}
		stop()
		if err := call(t.Context(), q, "late", 0).end(); !errors.Is(err, catalog.ErrUnavailable) {
			t.Errorf("got %v, want unavailable: nobody stores any more", err)
		}
	})
}
