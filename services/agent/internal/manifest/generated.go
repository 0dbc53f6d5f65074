// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/contract/syncrequest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// GeneratedStore keeps what random functions of templates returned: passwords and certificates that
// a restart of the agent, and the loss of its folder, must not change.
type GeneratedStore interface {
	// Load returns what was saved for a service; nil if nothing was.
	Load(ctx context.Context, service string) (render.Generated, error)
	// Save replaces the kept values of a service. Nil deletes it.
	Save(ctx context.Context, service string, values render.Generated) error
}

// renewed is the place of the sync request by which everything was last generated again. It is not
// a place that a template can have.
const renewed = "sync request"

// saltPlace is the place at which the salt is stored. It is not a place that a template can have, and
// no render is given it.
const saltPlace = "configuration salt"

// Generated makes renders of a service use what earlier ones have generated, except certificates in
// the last third of their life, and values that a person wants generated again. New values are
// saved before any reader sees the objects that hold them. It is safe for concurrent use.
type Generated struct {
	store GeneratedStore

	mu       sync.Mutex
	services map[string]*generated // those whose templates generate something
}

// generated are the values of one service.
type generated struct {
	mu       sync.Mutex // held while the store is used, so that one of two renders saves first
	isLoaded bool
	values   render.Generated // what renders use, saved or not
	saved    render.Generated
	salt     string // of the digest in pods, "" if none was made; see stampPods
	hasSaved bool   // the store has the salt
}

// NewGenerated returns a Generated that has loaded nothing yet.
func NewGenerated(store GeneratedStore) *Generated {
	return &Generated{store: store, services: map[string]*generated{}}
}

// render renders with the values of the service. It renders again if it learns of values that the
// render did not know: at the first render of a process, and after another render of the service.
// New values of a trial are remembered, and not saved.
func (g *Generated) render(ctx context.Context, service plan.Service, engine render.Renderer, in render.Input, isTrial bool) (render.Output, error) {
	for {
		in.Generated = g.known(service)
		out, err := engine.Render(ctx, in)
		if err != nil || len(out.Generated) == 0 {
			return out, err
		}
		if isSettled, err := g.of(service.Name).settle(ctx, g.store, service, in.Generated, out.Generated, isTrial); isSettled || err != nil {
			return out, err
		}
	}
}

// known returns the values that a render should use now.
func (g *Generated) known(service plan.Service) render.Generated {
	g.mu.Lock()
	s := g.services[service.Name]
	g.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = current(s.values, service.SyncRequest, time.Now())
	return s.values
}

func (g *Generated) of(service string) *generated {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.services[service] == nil {
		g.services[service] = &generated{}
	}
	return g.services[service]
}

// current returns the values that count under a sync request, at a time.
func current(values render.Generated, request string, now time.Time) render.Generated {
	if syncrequest.Regenerates(request) && values[renewed] != request {
		return render.Generated{renewed: request}
	}
	return values.Current(now)
}

// settle takes what a render has made that knew those values, and saves it unless it is a trial. It
// returns false if there are other values than the render knew.
func (s *generated) settle(
	ctx context.Context, store GeneratedStore, service plan.Service, knew, made render.Generated, isTrial bool,
) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isLoaded {
		if err := s.loadLocked(ctx, store, service.Name); err != nil {
			return false, err
		}
		s.values = current(s.saved, service.SyncRequest, time.Now())
	}
	if !maps.Equal(s.values, knew) {
		return false, nil
	}
	if !knew.Covers(made) {
		s.values = joined(knew, made)
	}
	if isTrial || s.saved.Covers(made) && s.saved[renewed] == s.values[renewed] {
		return true, nil
	}
	if err := s.saveLocked(ctx, store, service.Name, s.values); err != nil {
		return false, err
	}
	s.saved = s.values
	return true, nil
}

// loadLocked reads the stored values.
func (s *generated) loadLocked(ctx context.Context, store GeneratedStore, service string) error {
	stored, err := store.Load(ctx, service)
	if err != nil {
		return err
	}
	if salt, ok := stored[saltPlace]; ok {
		s.salt, s.hasSaved = salt, true
		stored = maps.Clone(stored)
		delete(stored, saltPlace)
	}
	s.saved, s.isLoaded = stored, true
	return nil
}

// saveLocked stores values, with the salt if there is one.
func (s *generated) saveLocked(ctx context.Context, store GeneratedStore, service string, values render.Generated) error {
	if s.salt != "" {
		whole := render.Generated{saltPlace: s.salt}
		maps.Copy(whole, values)
		values = whole
	}
	if err := store.Save(ctx, service, values); err != nil {
		return err
	}
	s.hasSaved = s.salt != ""
	return nil
}

// saltOf returns the salt of a service, which it makes if there is none. It saves a new one before
// anybody sees it, unless it is for a trial.
func (s *generated) saltOf(ctx context.Context, store GeneratedStore, service string, isTrial bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isLoaded {
		if err := s.loadLocked(ctx, store, service); err != nil {
			return "", err
		}
		if s.values == nil {
			s.values = s.saved
		}
	}
	if s.salt == "" {
		s.salt = rand.Text()
	}
	if isTrial || s.hasSaved {
		return s.salt, nil
	}
	return s.salt, s.saveLocked(ctx, store, service, s.saved)
}

// joined returns what a render has made, and what earlier ones have made and it did not use, if
// there is room: that is for the way back to an earlier version of the chart.
func joined(knew, made render.Generated) render.Generated {
	all := maps.Clone(knew)
	if all == nil {
		all = render.Generated{}
	}
	maps.Copy(all, made)
	if all.Size() <= render.MaxGenerated {
		return all
	}
	all = maps.Clone(made)
	if request, ok := knew[renewed]; ok {
		all[renewed] = request
	}
	return all
}

// Forget deletes the kept values of a service that is gone.
func (g *Generated) Forget(ctx context.Context, service string) error {
	if err := g.store.Save(ctx, service, nil); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.services, service)
	return nil
}
