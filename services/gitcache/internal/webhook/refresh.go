// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// workers is how many refreshes are asked for at once; asking does not wait for the fetch.
	workers = 8
	// patience is how long a repository without an owner is waited for. A new owner fetches anyway.
	patience = 30 * time.Second
)

// Run refreshes what webhooks name, and records them, until ctx is done. It returns nil.
func (h *Handler) Run(ctx context.Context) error {
	var running errgroup.Group
	running.SetLimit(workers + 1)
	running.Go(func() error {
		h.recorder.run(ctx)
		return nil
	})
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
