// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/wake"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// workers is how many refreshes are asked for at once; asking does not wait for the fetch.
	workers = 8
	// patience is how long a repository without an owner is waited for. A new owner fetches anyway.
	patience = 30 * time.Second
)

// task is a repository to refresh.
type task struct {
	repository string
	delivery   deliveryID
	cause      trace.SpanContext
}

// queue holds at most one task for each repository, and so no more than there are repositories.
type queue struct {
	mu      sync.Mutex
	order   []string
	waiting map[string]task
	wake    wake.Signal // holds one token when there may be a task
}

func newQueue() *queue {
	return &queue{waiting: map[string]task{}, wake: wake.NewSignal()}
}

// add queues a task, unless one for the repository waits already: that one will do for both.
func (q *queue) add(t task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.waiting[t.repository]; ok {
		return
	}
	q.waiting[t.repository] = t
	q.order = append(q.order, t.repository)
	q.wake.Set()
}

// next waits for a task. The error is the context's.
func (q *queue) next(ctx context.Context) (task, error) {
	for {
		if t, ok := q.pop(); ok {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return task{}, context.Cause(ctx)
		case <-q.wake:
		}
	}
}

func (q *queue) pop() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return task{}, false
	}
	t := q.waiting[q.order[0]]
	delete(q.waiting, q.order[0])
	q.order = q.order[1:]
	return t, true
}

// Run refreshes what webhooks name, until ctx is done. It returns nil.
func (h *Handler) Run(ctx context.Context) error {
	var running errgroup.Group
	running.SetLimit(workers)
	for {
		t, err := h.queue.next(ctx)
		if err != nil {
			return running.Wait() // the workers return no errors
		}
		running.Go(func() error {
			h.refresh(ctx, t)
			return nil
		})
	}
}

// refresh asks for a fetch until a replica takes it, unless another replica was sent the delivery
// before. Where none takes it, the delivery is forgotten, so that sending it once more helps.
func (h *Handler) refresh(ctx context.Context, t task) {
	if !h.first(ctx, t) {
		return
	}
	if t.cause.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, t.cause)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	policy := backoff.Policy{Initial: 500 * time.Millisecond, Max: 5 * time.Second}
	err := backoff.Retry(limited, policy, func(ctx context.Context) error {
		err := h.params.Refresh(ctx, t.repository)
		if errors.Is(err, mirror.ErrUnknownRepository) {
			return backoff.Permanent(err)
		}
		return err
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	h.forget(ctx, t)
	h.params.Logger.WarnContext(ctx, "repository not refreshed after a webhook",
		slog.String("leat.repository", t.repository), slog.Any("error", err))
}

// id names a task for all replicas. One delivery may concern several repositories.
func (t task) id() string { return hex.EncodeToString(t.delivery[:]) + ":" + t.repository }

// first reports whether no other replica was sent the delivery. If that is unknown, it counts as
// the first: a fetch too many does no harm.
func (h *Handler) first(ctx context.Context, t task) bool {
	fresh, err := h.params.Deliveries.Remember(ctx, t.id(), remembered)
	if err != nil {
		h.params.Logger.DebugContext(ctx, "delivery not compared with other replicas", slog.Any("error", err))
	}
	return fresh || err != nil
}

func (h *Handler) forget(ctx context.Context, t task) {
	h.seen.forget(t.delivery)
	if err := h.params.Deliveries.Forget(ctx, t.id()); err != nil {
		h.params.Logger.DebugContext(ctx, "delivery not forgotten", slog.Any("error", err))
	}
}
