// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package mirroring keeps mirrors of upstream repositories fresh.
package mirroring

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Settings are the times and bounds of all repositories. A field that is zero takes its default.
type Settings struct {
	PollInterval time.Duration // where a definition has none; 2 min
	LeaseTTL     time.Duration // 15 s
	LeaseRenew   time.Duration // a third of LeaseTTL
	FetchTimeout time.Duration // 5 min
	CloneTimeout time.Duration // 30 min
	Debounce     time.Duration // from a refresh request to its fetch; 1 s
	Fetches      int           // at once on this replica; 16
	Clones       int           // at once on this replica; 8
	Rebalance    time.Duration // mean time between looks at who should own what; 30 s
	Followers    int           // replicas besides the owner that keep a copy; zero: none
}

// WithDefaults fills in what is zero.
func (s Settings) WithDefaults() Settings {
	fill := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	fill(&s.PollInterval, 2*time.Minute)
	fill(&s.LeaseTTL, 15*time.Second)
	fill(&s.LeaseRenew, s.LeaseTTL/3)
	fill(&s.FetchTimeout, 5*time.Minute)
	fill(&s.CloneTimeout, 30*time.Minute)
	fill(&s.Debounce, time.Second)
	fill(&s.Rebalance, 30*time.Second)
	if s.Fetches <= 0 {
		s.Fetches = 16
	}
	if s.Clones <= 0 {
		s.Clones = 8
	}
	return s
}

// Deps are what a [Set] works with. All but Objects are required.
type Deps struct {
	Backend  mirror.Backend
	Named    mirror.Named
	Events   mirror.EventLog
	Leases   lease.Store
	Peers    mirror.Peers
	Replicas mirror.Replicas
	// Objects are copied and removed with the mirrors. Nil: there are none.
	Objects mirror.Objects
	// Self is the base URL under which other replicas reach this one; it is the owner's name in leases.
	Self     string
	Settings Settings
	Logger   *slog.Logger
	Tracer   trace.Tracer
	Meter    metric.Meter
}

// shared is what all repositories of a set have in common.
type shared struct {
	Deps
	metrics *metrics
	upkeep  diskMetrics
	fetches *semaphore.Weighted
	clones  *semaphore.Weighted
	notices *semaphore.Weighted // calls that tell heirs
	copies  *semaphore.Weighted
	full    chan struct{} // holds one token when a fetch found the disk full
	outage  outage
}

// slot waits for the right to fetch. Clones have their own, so that a few large ones do not hold up every poll.
func (s *shared) slot(ctx context.Context, clone bool) (release func(), err error) {
	pool, q := s.fetches, queueFetch
	if clone {
		pool, q = s.clones, queueClone
	}
	defer s.metrics.wait(q)()
	if err := pool.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { pool.Release(1) }, nil
}

// Set runs the repositories of one replica. All methods may be called concurrently.
type Set struct {
	shared *shared

	mu      sync.Mutex
	byName  map[string]*Repository
	orphans []mirror.Definition
	wake    chan struct{} // holds one token when byName changed
}

// NewSet returns an empty set; [Set.Apply] fills it and [Set.Run] makes it work.
func NewSet(deps Deps) (*Set, error) {
	deps.Settings = deps.Settings.WithDefaults()
	s := &Set{byName: map[string]*Repository{}, wake: make(chan struct{}, 1)}
	s.shared = &shared{
		Deps:    deps,
		fetches: semaphore.NewWeighted(int64(deps.Settings.Fetches)),
		clones:  semaphore.NewWeighted(int64(deps.Settings.Clones)),
		notices: semaphore.NewWeighted(maxNotices),
		copies:  semaphore.NewWeighted(maxCopies),
		full:    make(chan struct{}, 1),
	}
	var err error
	if s.shared.metrics, err = newMetrics(deps.Meter); err == nil {
		err = s.observe(deps.Meter)
	}
	if err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if s.shared.upkeep, err = newDiskMetrics(deps.Meter, deps.Backend); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return s, nil
}

// Apply makes the set hold exactly these definitions, without submodules whose parent is not among them. Repositories that are gone are stopped, and their mirrors removed.
func (s *Set) Apply(defs []mirror.Definition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defs, s.orphans = partOrphans(defs)
	keep := make(map[string]*Repository, len(defs))
	for _, def := range defs {
		if r, ok := s.byName[def.Name]; ok && r.uid == def.UID {
			r.update(def)
			keep[def.Name] = r
			continue
		}
		keep[def.Name] = newRepository(def, s.shared)
	}
	s.byName = keep
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Get returns the repository of that name; the error is ErrUnknownRepository.
func (s *Set) Get(name string) (*Repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byName[name]
	if !ok {
		return nil, mirror.ErrUnknownRepository
	}
	return r, nil
}

// List returns all repositories by name.
func (s *Set) List() []*Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*Repository, 0, len(s.byName))
	for _, r := range s.byName {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Repository) int { return strings.Compare(a.name, b.name) })
	return list
}

// Definitions returns the definitions of all repositories, secrets included, in no order.
func (s *Set) Definitions() []mirror.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	defs := make([]mirror.Definition, 0, len(s.byName))
	for _, r := range s.byName {
		defs = append(defs, r.Definition())
	}
	return defs
}

// Run runs every repository of the set, those that come later included, until ctx is done. Leases are given back before
// it returns. It returns nil.
func (s *Set) Run(ctx context.Context) error {
	running := map[*Repository]func(){} // each stops its repository and waits for it
	defer func() {
		var stopping sync.WaitGroup
		for _, stop := range running {
			stopping.Go(stop)
		}
		stopping.Wait()
	}()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { s.rebalance(ctx) })
	watching.Go(func() { s.listen(ctx) })
	watching.Go(func() { s.tend(ctx) })
	watching.Go(func() { s.compact(ctx) })
	for {
		s.reconcile(ctx, running)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

func (s *Set) reconcile(ctx context.Context, running map[*Repository]func()) {
	wanted := s.List()
	for r, stop := range running {
		if !slices.Contains(wanted, r) {
			stop()
			delete(running, r)
			s.removeMirror(ctx, r)
		}
	}
	for _, r := range wanted {
		if running[r] == nil {
			running[r] = start(ctx, r)
		}
	}
}

func start(ctx context.Context, r *Repository) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx)
	}()
	return func() { cancel(); <-done }
}

func (s *Set) removeMirror(ctx context.Context, r *Repository) {
	s.shared.Logger.InfoContext(ctx, "repository deleted", slog.String("leat.repository", r.name))
	s.removeObjects(ctx, r)
	if err := s.shared.Backend.Remove(ctx, r.uid); err != nil {
		s.shared.Logger.WarnContext(ctx, "mirror not removed", slog.String("leat.repository", r.name), slog.Any("error", err))
	}
}
