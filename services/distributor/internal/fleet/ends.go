// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// endsLook bounds how long Ends waits without a look at the clock, which may have been set.
const endsLook = time.Minute

// nextEnds are the services whose plans will be others by themselves, because a pause ends, an ignore rule
// or a pin, and when. Nothing of it is stored: it follows from specs and pins, by this replica's clock, so
// a restart forgets nothing and replicas agree as their clocks do. It is safe for concurrent use.
type nextEnds struct {
	catalog  *Catalog
	admitted *admissions
	// sooner wakes Ends.
	sooner wake.Signal

	mu sync.Mutex
	// next is the first end to come, by the path of the service.
	next map[string]time.Time
}

func newNextEnds(c *Catalog, admitted *admissions) *nextEnds {
	return &nextEnds{catalog: c, admitted: admitted, sooner: wake.NewSignal(), next: map[string]time.Time{}}
}

// note remembers the next ends of the services that a change touches. The time is one before their
// plans are computed, so an end that comes between the two is still to come.
func (e *nextEnds) note(at time.Time, set *changeSet) {
	for _, services := range set.services {
		for path := range services {
			e.put(path, e.nextOf(path, at))
		}
	}
}

// nextOf returns the first end of a service's spec or pin after a time, or the zero time.
func (e *nextEnds) nextOf(path string, at time.Time) time.Time {
	service, ok := e.catalog.Service(path)
	if !ok {
		return time.Time{}
	}
	return earlier(e.admitted.specFor(service).NextEnd(at), e.admitted.of(service.UID).NextEnd(at))
}

// earlier returns the earlier of two ends. The zero time stands for no end.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (e *nextEnds) put(path string, next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if next.IsZero() {
		delete(e.next, path)
		return
	}
	e.next[path] = next
	e.sooner.Set()
}

// due returns the services of which something has ended, and forgets them. Without any it returns how
// long to wait for the next look.
func (e *nextEnds) due(at time.Time) (paths []string, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wait = endsLook
	for path, next := range e.next {
		if left := next.Sub(at); left > 0 {
			wait = min(wait, left)
			continue
		}
		delete(e.next, path)
		paths = append(paths, path)
	}
	return paths, wait
}

// Ends brings plans in line when a pause, an ignore rule or a pin ends by itself. It is the one place that
// notices: a plan is computed by the specs as they count at that time, and what follows from an end is the
// same as what follows from an edit. One goroutine runs it.
type Ends struct{ View *View }

// Run works until ctx is done.
func (e Ends) Run(ctx context.Context) error {
	for {
		paths, wait := e.View.ends.due(catalog.Now())
		if len(paths) > 0 {
			e.revise(ctx, paths)
			continue
		}
		if err := e.View.ends.sooner.Await(ctx, wait); err != nil {
			return err
		}
	}
}

// revise revises the plans of services of which something has ended.
func (e Ends) revise(ctx context.Context, paths []string) {
	defer e.View.writing.take()()
	set := newChangeSet()
	for _, path := range paths {
		if service, ok := e.View.Catalog.Service(path); ok {
			set.addService(service)
		}
	}
	e.View.revise(ctx, set)
}
