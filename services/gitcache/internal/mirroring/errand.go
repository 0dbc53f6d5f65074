// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// errands are under way for the owner of a repository. The lease is not given up before they have ended.
type errands struct {
	mu      sync.Mutex
	held    *lease.Held // nil: this replica does not own the repository
	cancel  map[*mirror.OwnerTask]context.CancelCauseFunc
	running sync.WaitGroup
}

// admit lets errands be run until ctx, the tenure's, is done or the returned function is called, which ends those that are
// under way and waits for them.
func (e *errands) admit(ctx context.Context, held *lease.Held) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.cancel = held, map[*mirror.OwnerTask]context.CancelCauseFunc{}
	stop := context.AfterFunc(ctx, e.refuse)
	return func() {
		stop()
		e.refuse()
		e.running.Wait()
	}
}

func (e *errands) refuse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = nil
	for _, cancel := range e.cancel {
		cancel(mirror.ErrNotOwner)
	}
}

func (e *errands) begin(ctx context.Context, def mirror.Definition) (context.Context, *mirror.OwnerTask, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == nil || e.held.Check() != nil {
		return nil, nil, fmt.Errorf("run errand for %q: %w", def.Name, mirror.ErrNotOwner)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	errand := &mirror.OwnerTask{Definition: def, Guard: e.held.Check}
	e.cancel[errand] = cancel
	e.running.Add(1)
	return ctx, errand, nil
}

func (e *errands) end(errand *mirror.OwnerTask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel[errand](nil)
	delete(e.cancel, errand)
	e.running.Done()
}

// AsOwner runs what only the owner of the repository may do, and ends its context when the lease is lost or given up.
// ErrNotOwner: this replica is not the owner, or stopped to be meanwhile. A *QuietError: the upstream's host wants to be
// left alone.
func (r *Repository) AsOwner(ctx context.Context, run func(ctx context.Context, e mirror.OwnerTask) error) error {
	ctx, errand, err := r.errands.begin(ctx, r.Definition())
	if err != nil {
		return err
	}
	defer r.errands.end(errand)
	leave, err := r.shared.enter(ctx, errand.Definition)
	if err == nil {
		defer leave()
		err = run(ctx, *errand)
	}
	if err != nil && (errors.Is(context.Cause(ctx), mirror.ErrNotOwner) || errand.Guard() != nil) {
		return fmt.Errorf("run errand for %q: %w: %w", r.name, mirror.ErrNotOwner, err)
	}
	return err
}

// Announce makes followers look at what this replica holds, if it is the owner.
func (r *Repository) Announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced = true
	r.signalLocked()
}

func (r *Repository) takeAnnounced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	announced := r.announced
	r.announced = false
	return announced
}

// noteState queues an event if health changed, or followers are to look.
func (t *tenure) noteState() {
	e := mirror.Event{Time: time.Now()}
	if t.repo.takeAnnounced() {
		t.note(e)
		return
	}
	t.noteHealth(e)
}

// copyObjects makes a follower hold the objects that another replica does.
func (r *Repository) copyObjects(ctx context.Context, replica string) error {
	if r.shared.Objects == nil {
		return nil
	}
	if err := r.shared.Objects.Copy(ctx, replica, r.Definition()); err != nil {
		return fmt.Errorf("copy objects: %w", err)
	}
	return nil
}

func (s *Set) removeObjects(ctx context.Context, r *Repository) {
	if s.shared.Objects == nil {
		return
	}
	if err := s.shared.Objects.Remove(ctx, r.uid); err != nil {
		s.shared.Logger.WarnContext(ctx, "objects not removed", slog.String("leat.repository", r.name), slog.Any("error", err))
	}
}

// Find returns the repository of that UID; the error is ErrUnknownRepository.
func (s *Set) Find(uid string) (*Repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.byName {
		if r.uid == uid {
			return r, nil
		}
	}
	return nil, mirror.ErrUnknownRepository
}
