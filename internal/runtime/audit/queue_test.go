// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/runtime/audit"
)

var errFull = errors.New("no space left on device")

// memory is an output that can be full and can be held.
type memory struct {
	mu      sync.Mutex
	records []*audit.Record
	room    int  // records that it still takes
	full    bool // whether room counts
	held    chan struct{}
	called  chan struct{}
}

func (m *memory) WriteBatch(_ context.Context, records []*audit.Record) (int, error) {
	if m.called != nil {
		m.called <- struct{}{}
	}
	if m.held != nil {
		<-m.held
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(records)
	if m.full {
		n = min(n, m.room)
		m.room -= n
	}
	m.records = append(m.records, records[:n]...)
	if n < len(records) {
		return n, errFull
	}
	return n, nil
}

func (m *memory) setRoom(full bool, room int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full, m.room = full, room
}

func (m *memory) all() []*audit.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*audit.Record(nil), m.records...)
}

// start runs a queue. The returned function ends it and returns what Run does.
func start(tb testing.TB, params audit.QueueParams) (*audit.Queue, func() error) {
	tb.Helper()
	params.Name, params.Meter = "memory", noop.Meter{}
	if params.Logger == nil {
		params.Logger = slog.New(slog.DiscardHandler)
	}
	queue, err := audit.NewQueue(params)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-ended })
	tb.Cleanup(func() { _ = stop() })
	return queue, stop
}

// request runs a request's trail: an error means that it was refused.
func request(ctx context.Context, sink audit.Sink, id string) error {
	trail := audit.Begin(sink, audit.Request{ID: id})
	if err := trail.Decide(ctx, audit.Decision{Allowed: true}); err != nil {
		return err
	}
	return trail.End(ctx, audit.Result{Status: 200, Outcome: audit.OutcomeCompleted})
}

// check holds the records against what requests saw: who was carried out has a decision and a
// completed outcome, in this order, and an allowed decision of any other caller has an outcome
// failed.
func check(tb testing.TB, records []*audit.Record, carriedOut map[string]bool) {
	tb.Helper()
	outcomes := map[string][]audit.Outcome{}
	decisions := map[string]int{}
	for _, record := range records {
		if record.Phase == audit.PhaseDecision {
			decisions[record.ID]++
			continue
		}
		if decisions[record.ID] == 0 {
			tb.Errorf("%s: outcome without a decision before it", record.ID)
		}
		outcomes[record.ID] = append(outcomes[record.ID], record.Outcome)
	}
	for id, n := range decisions {
		want := audit.OutcomeFailed
		if carriedOut[id] {
			want = audit.OutcomeCompleted
		}
		if got := outcomes[id]; n != 1 || len(got) != 1 || got[0] != want {
			tb.Errorf("%s: got %d decisions and outcomes %v, want one each, %s", id, n, got, want)
		}
	}
	for id := range carriedOut {
		if decisions[id] == 0 {
			tb.Errorf("%s was carried out without a decision on record", id)
		}
	}
}

func TestEveryRequestHasItsTwoRecords(t *testing.T) {
	t.Parallel()
	out := &memory{}
	queue, stop := start(t, audit.QueueParams{Output: out})
	carriedOut, mu, group := map[string]bool{}, sync.Mutex{}, sync.WaitGroup{}
	for i := range 64 {
		group.Go(func() {
			for j := range 50 {
				id := fmt.Sprintf("%d/%d", i, j)
				if err := request(t.Context(), queue, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				mu.Lock()
				carriedOut[id] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := len(out.all()); got != 2*64*50 {
		t.Errorf("got %d records, want %d", got, 2*64*50)
	}
	check(t, out.all(), carriedOut)
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	out := &memory{}
	queue, stop := start(t, audit.QueueParams{Output: out})
	carriedOut := map[string]bool{}
	running := audit.Begin(queue, audit.Request{ID: "running"})
	if err := running.Decide(t.Context(), audit.Decision{Allowed: true}); err != nil {
		t.Fatal(err)
	}
	carriedOut["running"] = true
	out.setRoom(true, 0)
	if err := running.End(t.Context(), audit.Result{Outcome: audit.OutcomeCompleted}); err != nil {
		t.Errorf("the outcome of a request that is over was not taken: %v", err)
	}
	for i := range 20 {
		if err := request(t.Context(), queue, "refused "+strconv.Itoa(i)); !errors.Is(err, errFull) {
			t.Errorf("got %v, want %v", err, errFull)
		}
	}
	out.setRoom(false, 0)
	if err := request(t.Context(), queue, "after"); err != nil {
		t.Errorf("the disk has room again: %v", err)
	}
	carriedOut["after"] = true
	if err := stop(); err != nil {
		t.Error(err)
	}
	check(t, out.all(), carriedOut)
	if got := len(out.all()); got != 4 {
		t.Errorf("got %d records, want the four of two requests", got)
	}
}

// TestDiskFillsWhileManyWrite fills the disk in the middle of batches.
func TestDiskFillsWhileManyWrite(t *testing.T) {
	t.Parallel()
	out := &memory{full: true, room: 333}
	queue, stop := start(t, audit.QueueParams{Output: out})
	carriedOut, mu, group := map[string]bool{}, sync.Mutex{}, sync.WaitGroup{}
	for i := range 400 {
		group.Go(func() {
			id := strconv.Itoa(i)
			if request(t.Context(), queue, id) == nil {
				mu.Lock()
				defer mu.Unlock()
				carriedOut[id] = true
			}
		})
	}
	group.Wait()
	if n := len(carriedOut); n == 0 || n > 333 {
		t.Errorf("got %d requests carried out, want some, and no more than the disk has room for", n)
	}
	out.setRoom(false, 0)
	if err := stop(); err != nil {
		t.Error(err)
	}
	check(t, out.all(), carriedOut)
}

func TestOutputThatHangsRefusesInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{held: make(chan struct{})}
		queue, stop := start(t, audit.QueueParams{Output: out, Timeout: 3 * time.Second})
		began := time.Now()
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- request(t.Context(), queue, "in the output") }()
		synctest.Wait()
		go func() { second <- request(t.Context(), queue, "in the queue") }()
		for _, result := range []chan error{first, second} {
			if err := <-result; err == nil || !strings.Contains(err.Error(), "in time") {
				t.Errorf("got %v, want a timeout", err)
			}
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %s, want 3s", waited)
		}
		close(out.held)
		synctest.Wait()
		if err := request(t.Context(), queue, "after"); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		// The one that the output had was written after its caller had been refused, and its outcome
		// records that.
		check(t, out.all(), map[string]bool{"after": true})
		if got := len(out.all()); got != 4 {
			t.Errorf("got %d records, want 4: %+v", got, out.all())
		}
	})
}

func TestCallerWhoLeavesIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{held: make(chan struct{})}
		queue, _ := start(t, audit.QueueParams{Output: out})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- request(ctx, queue, "1") }()
		synctest.Wait()
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		close(out.held)
	})
}

func TestFullQueueRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{held: make(chan struct{})}
		queue, stop := start(t, audit.QueueParams{Output: out, Size: 2000})
		var group sync.WaitGroup
		group.Go(func() { _ = request(t.Context(), queue, "1") })
		group.Go(func() { _ = request(t.Context(), queue, "2") })
		synctest.Wait()
		began := time.Now()
		if err := request(t.Context(), queue, "3"); err == nil || !strings.Contains(err.Error(), "full") || time.Since(began) != 0 {
			t.Errorf("got %v after %s, want a refusal at once", err, time.Since(began))
		}
		close(out.held)
		group.Wait()
		synctest.Wait()
		if err := request(t.Context(), queue, "4"); err != nil {
			t.Errorf("the queue is empty again: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		check(t, out.all(), map[string]bool{"1": true, "2": true, "4": true})
	})
}

func TestFailingOpenGoesOnAndCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		out := &memory{full: true}
		queue, stop := start(t, audit.QueueParams{
			Output: out, Size: 4000, FailOpen: true, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		for i := range 100 {
			if err := request(t.Context(), queue, strconv.Itoa(i)); err != nil {
				t.Fatalf("a request was refused: %v", err)
			}
			synctest.Wait()
		}
		out.setRoom(false, 0)
		<-time.After(2 * time.Second) // the next try
		synctest.Wait()
		kept := len(out.all())
		if kept == 0 || kept > 5 {
			t.Errorf("got %d records, want as many as the queue holds", kept)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := fmt.Sprintf("lost=%d", 200-kept); !strings.Contains(logged.String(), want) {
			t.Errorf("got log %q, want %s", logged.String(), want)
		}
		if got := strings.Count(logged.String(), "are not written"); got != 1 {
			t.Errorf("got %d lines about the failure, want one", got)
		}
	})
}

func TestEndWaitsForTheLastRecordsButNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{full: true, room: 1}
		queue, stop := start(t, audit.QueueParams{Output: out})
		if err := request(t.Context(), queue, "1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		if err := stop(); err == nil || !strings.Contains(err.Error(), "1 records") {
			t.Errorf("got %v, want the loss of one record", err)
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("waited %s, want 5s", waited)
		}
		if err := request(t.Context(), queue, "2"); err == nil {
			t.Error("a closed log took a decision")
		}
	})
}

func TestFanRefusesWhenOneOutputFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, bad, open := &memory{}, &memory{full: true}, &memory{full: true}
		q1, stop := start(t, audit.QueueParams{Output: good})
		q2, _ := start(t, audit.QueueParams{Output: bad})
		q3, _ := start(t, audit.QueueParams{Output: open, FailOpen: true})
		sink := audit.Fan{q1, q2, q3}
		if err := request(t.Context(), sink, "1"); !errors.Is(err, errFull) {
			t.Errorf("got %v, want %v", err, errFull)
		}
		bad.setRoom(false, 0)
		if err := request(t.Context(), sink, "2"); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		check(t, good.all(), map[string]bool{"2": true})
		if got := len(good.all()); got != 4 {
			t.Errorf("got %d records, want a decision and an outcome of both requests", got)
		}
	})
}

func TestEmptyFanKeepsNothing(t *testing.T) {
	t.Parallel()
	if err := request(t.Context(), audit.Fan{}, "1"); err != nil {
		t.Error(err)
	}
}

func TestRealDeviceThatIsFull(t *testing.T) {
	t.Parallel()
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full: %v", err)
	}
	defer func() { _ = device.Close() }()
	queue, _ := start(t, audit.QueueParams{Output: audit.NewLog(device), FlushTimeout: time.Nanosecond})
	if err := request(t.Context(), queue, "1"); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v, want ENOSPC", err)
	}
}

// short takes n bytes and then fails, once.
type short struct {
	strings.Builder

	n int
}

func (s *short) Write(p []byte) (int, error) {
	if s.n < 0 || len(p) <= s.n {
		return s.Builder.Write(p)
	}
	n, _ := s.Builder.Write(p[:s.n])
	s.n = -1
	return n, errFull
}

// blank returns so many empty records.
func blank(n int) []*audit.Record {
	return slices.Repeat([]*audit.Record{{}}, n)
}

func TestTornLineSpoilsNoOther(t *testing.T) {
	t.Parallel()
	var whole strings.Builder
	if _, err := audit.NewLog(&whole).WriteBatch(t.Context(), blank(3)); err != nil {
		t.Fatal(err)
	}
	line := whole.Len() / 3
	for n, want := range map[int]int{0: 0, 1: 0, line - 2: 0, line - 1: 1, line: 1, line + 1: 1, 2 * line: 2, 3*line - 1: 3} {
		out := &short{n: n}
		log := audit.NewLog(out)
		got, err := log.WriteBatch(t.Context(), blank(3))
		if got != want || !errors.Is(err, errFull) {
			t.Errorf("%d bytes: got %d records, %v, want %d and %v", n, got, err, want, errFull)
		}
		if _, err := log.WriteBatch(t.Context(), blank(3-got)); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for got := range strings.SplitSeq(out.String(), "\n") {
			if got+"\n" == whole.String()[:line] {
				lines++
			}
		}
		if lines != 3 {
			t.Errorf("%d bytes: got %d whole lines, want 3:\n%s", n, lines, out.String())
		}
	}
}
