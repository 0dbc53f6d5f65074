// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"sync"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/access/authz"
)

const (
	// maxViews bounds the results that are kept.
	maxViews = 256
	// viewAge is how long a result counts that time alone can change.
	viewAge = 10 * time.Second
)

// Views keeps the latest results of queries, so that callers with the same query and the same rights
// share one. It is safe for concurrent use.
type Views struct {
	index *Index

	mu    sync.Mutex
	views []*view // the latest used last
	runs  uint64
}

// view is the latest result of a query for some rights.
type view struct {
	key    string
	rights *authz.Rights

	mu         sync.Mutex // held while the query runs
	result     *Result
	generation uint64
	at         time.Time
}

// NewViews returns Views without a result.
func NewViews(index *Index) *Views { return &Views{index: index} }

// Runs returns how many queries were carried out, rather than answered from a result of another caller.
func (w *Views) Runs() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs
}

// Run returns the result of a query for callers with some rights. The view of a viewer must follow
// from the rights alone.
func (w *Views) Run(ctx context.Context, q *Query, rights *authz.Rights, viewer func() Viewer) (*Result, error) {
	shared := w.of(q, rights)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	now := time.Now()
	snapshot := w.index.Snapshot(q.kind)
	if shared.result != nil && shared.generation == snapshot.Generation && (!q.TellsTime() || now.Sub(shared.at) < viewAge) {
		return shared.result, nil
	}
	w.mu.Lock()
	w.runs++
	w.mu.Unlock()
	result, err := q.Run(ctx, snapshot, viewer(), now)
	if err != nil {
		return nil, err
	}
	shared.result, shared.generation, shared.at = result, snapshot.Generation, now
	return result, nil
}

// of returns the view of a query for some rights. It drops the one that was not used for the longest
// time if there are too many.
func (w *Views) of(q *Query, rights *authz.Rights) *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, v := range w.views {
		if v.key == q.key && v.rights.Equal(rights) {
			w.views = append(append(w.views[:i:i], w.views[i+1:]...), v)
			return v
		}
	}
	v := &view{key: q.key, rights: rights}
	if w.views = append(w.views, v); len(w.views) > maxViews {
		w.views = w.views[1:]
	}
	return v
}
