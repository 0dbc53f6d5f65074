// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// listenRetry is the pause before the log of events is read again.
	listenRetry   = 2 * time.Second
	rebalanceSpan = 0.25
)

// Set runs the repositories of one replica. All methods may be called concurrently.
type Set struct {
	shared *shared

	mu      sync.Mutex
	byName  map[string]*Repository
	orphans []mirror.Definition
	wake    wake.Signal // byName changed
}

// NewSet returns an empty set; [Set.Apply] fills it and [Set.Run] makes it work.
func NewSet(deps Deps) (*Set, error) {
	all, err := newShared(deps)
	if err != nil {
		return nil, err
	}
	s := &Set{shared: all, byName: map[string]*Repository{}, wake: wake.NewSignal()}
	if err := observe(deps.Meter, all, s.List); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return s, nil
}

// Apply makes the set hold exactly these definitions, without submodules whose parent is not among
// them. Repositories that are gone are stopped, and their mirrors removed.
func (s *Set) Apply(defs []mirror.Definition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defs, s.orphans = splitOrphans(defs)
	keep := make(map[string]*Repository, len(defs))
	for _, def := range defs {
		if r, ok := s.byName[def.Name]; ok && r.status.uid == def.UID {
			r.update(def)
			keep[def.Name] = r
			continue
		}
		keep[def.Name] = newRepository(def, s.shared)
	}
	s.byName = keep
	s.wake.Set()
}

// splitOrphans separates the submodules whose parent is not defined: it was deleted, and they go
// with it.
func splitOrphans(defs []mirror.Definition) (kept, orphans []mirror.Definition) {
	type identity struct{ name, uid string }
	known := make(map[identity]bool, len(defs))
	for _, def := range defs {
		known[identity{def.Name, def.UID}] = true
	}
	for _, def := range defs {
		if def.Parent != "" && !known[identity{def.Parent, def.ParentUID}] {
			orphans = append(orphans, def)
			continue
		}
		kept = append(kept, def)
	}
	return kept, orphans
}

// Orphans returns the definitions of submodules whose parent is gone. They are not part of the set.
func (s *Set) Orphans() []mirror.Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.orphans)
}

// Get returns the repository of that name; the error is mirror.ErrUnknownRepository.
func (s *Set) Get(name string) (*Repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byName[name]
	if !ok {
		return nil, mirror.ErrUnknownRepository
	}
	return r, nil
}

// Find returns the repository of that UID; the error is mirror.ErrUnknownRepository.
func (s *Set) Find(uid string) (*Repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.byName {
		if r.status.uid == uid {
			return r, nil
		}
	}
	return nil, mirror.ErrUnknownRepository
}

// OtherReplicas returns the names of the other live replicas.
func (s *Set) OtherReplicas() []string { return s.shared.view().Others("") }

// List returns all repositories by name.
func (s *Set) List() []*Repository {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.byName), func(a, b *Repository) int { return strings.Compare(a.status.name, b.status.name) })
}

// Definitions returns the definitions of all repositories by name, secrets included.
func (s *Set) Definitions() []mirror.Definition {
	list := s.List()
	defs := make([]mirror.Definition, 0, len(list))
	for _, r := range list {
		defs = append(defs, r.Definition())
	}
	return defs
}

// FetchBlobs makes the partial mirror of that UID hold blobs here, on whatever replica this is. It
// returns the errors of [Repository.FetchBlobs], and mirror.ErrUnknownRepository.
func (s *Set) FetchBlobs(ctx context.Context, uid string, ids []string) error {
	r, err := s.Find(uid)
	if err != nil {
		return err
	}
	return r.FetchBlobs(ctx, ids)
}

// Run runs every repository of the set, including later ones, until ctx is done. Leases are given
// back before it returns. It returns nil.
func (s *Set) Run(ctx context.Context) error {
	running := map[*Repository]func(){} // each stops its repository and waits for it
	defer func() {
		var stopping sync.WaitGroup
		for _, stop := range running {
			stopping.Go(stop)
		}
		stopping.Wait()
	}()
	var beside sync.WaitGroup
	defer beside.Wait()
	janitor := &janitor{shared: s.shared, list: s.List}
	for _, loop := range []func(context.Context){s.rebalance, s.listen, janitor.makeRoom, janitor.compact} {
		beside.Go(func() { loop(ctx) })
	}
	for {
		s.startAndStop(ctx, running)
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
	}
}

// startAndStop makes exactly the repositories of the set run.
func (s *Set) startAndStop(ctx context.Context, running map[*Repository]func()) {
	wanted := s.List()
	for r, stop := range running {
		if !slices.Contains(wanted, r) {
			stop()
			delete(running, r)
			r.local.remove(ctx)
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

// rebalance hands over what other replicas should own, one repository at a time, until ctx is done.
func (s *Set) rebalance(ctx context.Context) {
	for backoff.Wait(ctx, backoff.Jitter(s.shared.Settings.Rebalance, rebalanceSpan)) == nil {
		for _, r := range s.List() {
			r.follower.checkPlacement()
			if ctx.Err() == nil {
				r.handover.run(ctx)
			}
		}
	}
}

// listen wakes followers when an owner published something, until ctx is done. A missed event is
// noticed at the next poll.
func (s *Set) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_, token, err := s.shared.Events.States(ctx)
		if err == nil {
			for _, r := range s.List() {
				r.status.news.Set()
			}
			err = s.listenFrom(ctx, token)
		}
		if ctx.Err() == nil {
			s.shared.Logger.DebugContext(ctx, "events not heard", slog.Any("error", err))
			_ = backoff.Wait(ctx, backoff.Jitter(listenRetry, 0.5)) // the loop checks ctx
		}
	}
}

func (s *Set) listenFrom(ctx context.Context, token string) error {
	for ctx.Err() == nil {
		batch, err := s.shared.Events.Read(ctx, token)
		if err != nil {
			return err
		}
		for _, logged := range batch {
			token = logged.Token
			if r, err := s.Get(logged.Event.Repository); err == nil {
				r.status.news.Set()
			}
		}
	}
	return context.Cause(ctx)
}
