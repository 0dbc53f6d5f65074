// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// upstream answers fetches with what a test puts into it, and counts.
type upstream struct {
	mu       sync.Mutex
	refs     map[string]string
	err      error
	takes    time.Duration
	fetches  int
	inFlight int
	most     int
	epochs   []uint64
	times    []time.Time
}

func (u *upstream) Check(mirror.Definition) error { return nil }

func (u *upstream) Fetch(ctx context.Context, p mirror.FetchParams) (mirror.Content, error) {
	u.begin(p.Epoch)
	defer u.end()
	select {
	case <-ctx.Done():
		return mirror.Content{}, context.Cause(ctx)
	case <-time.After(u.takes):
	}
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return mirror.Content{}, u.err
	}
	var refs []mirror.Ref
	for name, commit := range u.refs {
		refs = append(refs, mirror.Ref{Name: name, Object: commit, Commit: commit})
	}
	return mirror.Content{Refs: mirror.NewRefs(refs), FreshAt: time.Now(), Epoch: p.Epoch}, nil
}

func (u *upstream) begin(epoch uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fetches++
	u.inFlight++
	u.most = max(u.most, u.inFlight)
	u.epochs = append(u.epochs, epoch)
	u.times = append(u.times, time.Now())
}

func (u *upstream) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inFlight--
}

func (u *upstream) set(refs map[string]string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refs, u.err = refs, err
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.fetches
}

// mirrors is a disk without anything on it.
type mirrors struct{ loaded map[string]mirror.Content }

func (m mirrors) Load(_ context.Context, uid string) (mirror.Content, error) {
	if c, ok := m.loaded[uid]; ok {
		return c, nil
	}
	return mirror.Content{}, mirror.ErrNoMirror
}

func (m mirrors) Remove(context.Context, string) error { return nil }

// eventLog keeps events, and fails on demand.
type eventLog struct {
	mu     sync.Mutex
	events []mirror.Event
	err    error
}

func (l *eventLog) Append(_ context.Context, e mirror.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.events = append(l.events, e)
	return nil
}

func (l *eventLog) States(context.Context) ([]mirror.Event, string, error) { return nil, "", nil }

func (l *eventLog) Read(context.Context, string) ([]mirror.Logged, error) { return nil, nil }

func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *eventLog) all() []mirror.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events)
}

type peers int

func (p peers) Live() int { return int(p) }

// world is what replicas share.
type world struct {
	upstream *upstream
	events   *eventLog
	leases   lease.Store
	log      io.Writer // nil: nowhere
	gate     *gate
}

func definition(name string) mirror.Definition {
	return mirror.Definition{Name: name, UID: "uid-" + name, Version: 1, URL: "https://git.invalid/" + name, PollInterval: time.Minute}
}

// replica starts a set with these repositories; stop ends it and waits.
func (w world) replica(t *testing.T, name string, live int, loaded map[string]mirror.Content, defs ...mirror.Definition) (set *mirror.Set, stop func()) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if w.log != nil {
		logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	var hosts mirror.Gate
	if w.gate != nil {
		hosts = w.gate
	}
	set, err := mirror.NewSet(mirror.Deps{
		Gate: hosts, Upstream: w.upstream, Mirrors: mirrors{loaded}, Events: w.events, Leases: w.leases, Peers: peers(live),
		Self: "http://" + name, Logger: logger,
		Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	set.Apply(defs)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = set.Run(ctx)
	}()
	return set, func() { cancel(); <-done }
}

func get(t *testing.T, set *mirror.Set, name string) *mirror.Repository {
	t.Helper()
	r, err := set.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
