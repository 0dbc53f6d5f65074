// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/hex"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/webhook/provider"
)

// task is a repository to refresh.
type task struct {
	repository string
	delivery   provider.DeliveryID
	cause      trace.SpanContext
}

// id names a task for all replicas. One delivery may concern several repositories.
func (t task) id() string { return hex.EncodeToString(t.delivery[:]) + ":" + t.repository }

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
