// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/election/electiontest"
	"github.com/leatdev/leat/services/distributor/internal/spine/fanout"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

// memory is a Store in memory, for one notifier. TestSQLite and TestPostgreSQL of package sqlstore hold
// the real one to the port.
type memory struct {
	electiontest.Memory

	mu     sync.Mutex
	ledger notify.Ledger
	items  map[string]notify.Item
	lost   int
}

var errAway = errors.New("the receiver is away")

// write calls fn in a term.
func (m *memory) write(term int64, fn func()) error {
	return m.Write(term, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		fn()
	})
}

func (m *memory) Ledger(context.Context) (notify.Ledger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return notify.Ledger{Since: m.ledger.Since, States: maps.Clone(m.ledger.States)}, nil
}

func (m *memory) Forget(_ context.Context, term int64) error {
	return m.write(term, func() { m.ledger = notify.Ledger{States: map[string]notify.State{}} })
}

func (m *memory) Save(_ context.Context, term int64, b notify.Batch) error {
	return m.write(term, func() {
		if !b.Since.IsZero() {
			m.ledger.Since = b.Since
		}
		maps.Copy(m.ledger.States, b.States)
		for _, id := range b.Gone {
			delete(m.ledger.States, id)
		}
		var collecting []notify.Item
		for _, item := range m.items {
			if item.Attempts == 0 {
				collecting = append(collecting, item)
			}
		}
		written, lost := notify.Place(collecting, b.Added, len(m.items))
		for _, item := range written {
			m.items[item.Message.ID] = item
		}
		m.lost += lost
	})
}

func (m *memory) Take(_ context.Context, term int64, now, until time.Time, skip []string, _ int) (taken []notify.Item, err error) {
	err = m.write(term, func() {
		due := slices.SortedFunc(maps.Values(m.items), func(a, b notify.Item) int { return a.NextAt.Compare(b.NextAt) })
		if len(due) == 0 || due[0].NextAt.After(now) || slices.Contains(skip, due[0].NotifierUID) {
			return
		}
		item := due[0]
		item.Attempts++
		item.NextAt = until
		m.items[item.Message.ID] = item
		taken = []notify.Item{item}
	})
	return taken, err
}

func (m *memory) Oldest(context.Context) (oldest time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range m.items {
		if oldest.IsZero() || item.CreatedAt.Before(oldest) {
			oldest = item.CreatedAt
		}
	}
	return oldest, nil
}

func (m *memory) Settle(_ context.Context, term int64, v notify.Verdict) error {
	return m.write(term, func() {
		if v.Sent {
			delete(m.items, v.Item.Message.ID)
		} else {
			m.items[v.Item.Message.ID] = v.Item
		}
	})
}

func (m *memory) NotifierSecrets(context.Context, string) (catalog.NotifierSecrets, error) {
	return catalog.NotifierSecrets{}, nil
}

// scene is a fleet whose services change class, and a receiver.
type scene struct {
	memory

	notifier *catalog.Notifier
	objects  *fanout.Hub[catalog.Key]

	meter metric.Meter

	mu       sync.Mutex
	classes  []notify.Class
	isAway   bool
	attempts int
	received map[string]int // by the id of the message
	events   map[string]int // by the id of the event
	total    int            // events of all messages
}

func newScene(services int) *scene {
	n := notifier(func(s *catalog.NotifierSpec) { s.Events = []notice.Kind{notice.ServiceFailed, notice.ServiceRecovered} })
	n.CreatedAt = time.Now()
	s := &scene{
		meter: noop.Meter{}, notifier: n, objects: fanout.NewHub[catalog.Key](0), classes: make([]notify.Class, services), received: map[string]int{}, events: map[string]int{},
	}
	s.items, s.ledger.States = map[string]notify.Item{}, map[string]notify.State{}
	for i := range s.classes {
		s.classes[i] = notify.Healthy
	}
	return s
}

func (s *scene) Notifiers() []*catalog.Notifier { return []*catalog.Notifier{s.notifier} }

func (s *scene) Keys(kinds ...catalog.Kind) (keys []catalog.Key) {
	if slices.Contains(kinds, catalog.KindService) {
		for i := range s.classes {
			keys = append(keys, catalog.Key{Kind: catalog.KindService, Name: fmt.Sprint(i)})
		}
	}
	return keys
}

func (s *scene) Learn(context.Context) error { return nil }

func (s *scene) See(key catalog.Key) (notify.Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := 0
	if _, err := fmt.Sscan(key.Name, &i); err != nil {
		return notify.Seen{}, false
	}
	seen := service(s.classes[i])
	seen.ID, seen.CreatedAt = "Service/"+key.Name, s.notifier.CreatedAt.Add(-time.Hour)
	return seen, true
}

func (s *scene) Tally(*catalog.Notifier, notify.Commit) (notify.Tally, string) {
	return notify.Tally{}, ""
}

func (s *scene) Send(_ context.Context, d notify.Delivery) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	if s.isAway {
		return "", errAway
	}
	s.received[d.Message.ID]++
	s.total += d.Message.Count
	for _, e := range d.Message.Events {
		s.events[e.ID]++
	}
	return "", nil
}

// set changes the class of a service.
func (s *scene) set(i int, class notify.Class) {
	s.mu.Lock()
	s.classes[i] = class
	s.mu.Unlock()
	s.objects.Publish(catalog.Key{Kind: catalog.KindService, Name: fmt.Sprint(i)})
}

func (s *scene) away(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isAway = is
}

// run runs a replica until stop is called.
func (s *scene) run(t *testing.T, holder string) (stop func()) {
	t.Helper()
	metrics, err := notify.NewMetrics(s.meter)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = notify.NewDispatcher(notify.Params{
			Store: s, Election: s, Fleet: s, Sink: s, Objects: s.objects, Metrics: metrics, Logger: slog.New(slog.DiscardHandler), Holder: holder,
		}).Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestAnOutageLosesNothing has services fail and recover for an hour in which the receiver is away,
// the leader is replaced, and a second replica waits for its turn. Every event arrives, once.
func TestAnOutageLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const services, rounds = 5, 60
		s := newScene(services)
		first := s.run(t, "first")
		pass(10 * time.Second)
		second := s.run(t, "second")
		s.away(true)
		for round := range rounds {
			class := notify.Failed
			if round%2 == 1 {
				class = notify.Healthy
			}
			for i := range services {
				s.set(i, class)
			}
			pass(time.Minute)
			if round == rounds/2 {
				first()
			}
		}
		s.mu.Lock()
		if len(s.received) > 0 || s.attempts == 0 || s.attempts > 2*rounds {
			t.Errorf("while the receiver is away: %d messages arrived by %d attempts", len(s.received), s.attempts)
		}
		s.mu.Unlock()
		s.away(false)
		pass(10 * time.Minute)
		second()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.items) > 0 || s.lost > 0 {
			t.Errorf("%d messages wait, %d events are lost", len(s.items), s.lost)
		}
		total := 0
		for id, n := range s.received {
			if total += n; n != 1 {
				t.Errorf("message %s arrived %d times", id, n)
			}
		}
		listed := 0
		for id, n := range s.events {
			if listed++; n != 1 {
				t.Errorf("event %s arrived %d times", id, n)
			}
		}
		if s.total != rounds*services || listed == 0 || total > rounds+10 {
			t.Errorf("got %d events, %d of them listed, in %d messages; want %d events", s.total, listed, total, rounds*services)
		}
	})
}

// TestOneReplicaSends: while the leader lives, no other replica sends, and when it dies without a
// word, another one does after a while.
func TestOneReplicaSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScene(1)
		first := s.run(t, "first")
		pass(10 * time.Second)
		second := s.run(t, "second")
		pass(10 * time.Minute)
		if lead, _ := s.Tenure(t.Context()); lead.Holder != "first" || lead.Term != 1 {
			t.Errorf("got %v", lead)
		}
		first()
		// It resigned. The lead of a process that was killed stays, and beats no more.
		electiontest.Claim(t, s, "killed")
		pass(20 * time.Second)
		if lead, _ := s.Tenure(t.Context()); lead.Holder != "killed" && lead.Holder != "second" {
			t.Errorf("got %v", lead)
		}
		pass(time.Minute)
		s.set(0, notify.Failed)
		pass(time.Minute)
		second()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.received) != 1 {
			t.Errorf("got %d messages, want the one of the second replica", len(s.received))
		}
	})
}

// TestOldestMessageIsMeasured has the receiver away for ten minutes, and then the leader.
func TestOldestMessageIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reader := newScene(1), sdkmetric.NewManualReader()
		s.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
		age := func() time.Duration {
			t.Helper()
			var all metricdata.ResourceMetrics
			if err := reader.Collect(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			for _, m := range all.ScopeMetrics[0].Metrics {
				if gauge, ok := m.Data.(metricdata.Gauge[float64]); ok && m.Name == "leat.notifications.waiting.age" {
					return time.Duration(gauge.DataPoints[0].Value * float64(time.Second))
				}
			}
			t.Fatal("there is no leat.notifications.waiting.age")
			return 0
		}
		stop := s.run(t, "first")
		pass(time.Minute)
		if got := age(); got != 0 {
			t.Errorf("without messages: got %v, want 0", got)
		}
		s.away(true)
		s.set(0, notify.Failed)
		pass(10 * time.Minute)
		if got := age(); got < 9*time.Minute || got > 10*time.Minute {
			t.Errorf("while the receiver is away: got %v, want ten minutes", got)
		}
		s.away(false)
		pass(time.Hour)
		if got := age(); got != 0 {
			t.Errorf("once it is back: got %v, want 0", got)
		}
		s.away(true)
		s.set(0, notify.Healthy)
		pass(time.Minute)
		if got := age(); got == 0 {
			t.Error("while the receiver is away again: got 0")
		}
		stop()
		if got := age(); got != 0 {
			t.Errorf("at a replica that does not send: got %v, want 0", got)
		}
	})
}
