// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/leatdev/leat/internal/kit/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// ownerTasks are the owner's questions to the upstream besides fetches. The lease is not given up
// before they have ended.
type ownerTasks struct {
	shared *shared
	status *status

	mu      sync.Mutex
	held    *lease.Held // nil: this replica does not own the repository
	cancels map[*mirror.OwnerTask]context.CancelCauseFunc
	running sync.WaitGroup
}

// open admits tasks until ctx, the tenure's, is done or the returned function is called. That
// function ends the tasks that are running and waits for them.
func (t *ownerTasks) open(ctx context.Context, held *lease.Held) (finish func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held, t.cancels = held, map[*mirror.OwnerTask]context.CancelCauseFunc{}
	stop := context.AfterFunc(ctx, func() { t.shut(held) })
	return func() {
		stop()
		t.shut(held)
		t.running.Wait()
	}
}

// shut admits no more tasks of a tenure, and ends the contexts of running ones. It does nothing to
// a later tenure, should it come so late.
func (t *ownerTasks) shut(held *lease.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != held {
		return
	}
	t.held = nil
	for _, cancel := range t.cancels {
		cancel(mirror.ErrNotOwner)
	}
}

// run runs a task; see [Repository.AsOwner].
func (t *ownerTasks) run(ctx context.Context, run func(ctx context.Context, task mirror.OwnerTask) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	task := &mirror.OwnerTask{Definition: t.status.definition()}
	err := t.begin(task, cancel)
	if err != nil {
		return err
	}
	defer t.end(task)
	leave, err := t.shared.enter(ctx, task.Definition)
	if err == nil {
		defer leave()
		err = run(ctx, *task)
	}
	if err != nil && (errors.Is(context.Cause(ctx), mirror.ErrNotOwner) || task.Guard() != nil) {
		return fmt.Errorf("run task of the owner of %q: %w: %w", t.status.name, mirror.ErrNotOwner, err)
	}
	return err
}

func (t *ownerTasks) begin(task *mirror.OwnerTask, cancel context.CancelCauseFunc) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil || t.held.Check() != nil {
		return fmt.Errorf("run task of the owner of %q: %w", t.status.name, mirror.ErrNotOwner)
	}
	task.Guard = t.held.Check
	t.cancels[task] = cancel
	t.running.Add(1)
	return nil
}

func (t *ownerTasks) end(task *mirror.OwnerTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.cancels, task)
	t.running.Done()
}
