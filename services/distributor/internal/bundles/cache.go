// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundles keeps the bundles that agents download: it fetches each once from gitcache, verifies it, and keeps it on
// the node's disk. It also makes and keeps deltas between bundles. Package bundlehttp serves both.
//
// Callers that miss the same bundle share one download, a [Cache] flight, which goes on when they give up. Its bytes can
// be read as they come, but the last of them only when the whole has been verified and stored, so no reader comes to the
// end of wrong bytes. The states of a bundle are: missing, filling (a flight), stored; a flight that fails leaves it
// missing, and the next caller begins another one.
//
// Cache.mu guards the flights and is held while the store is asked for a bundle's presence, so that no bundle is fetched
// that has just landed. The lock of the deltas' store is taken alone.
//
// The package evicts nothing and repairs nothing: the store does, which keeps what plans name.
package bundles

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

// scope names the package's tracer and meter.
const scope = "github.com/leatdev/leat/services/distributor/internal/bundles"

// Upstream is where bundles come from.
type Upstream interface {
	// Download returns the bytes of a bundle, unverified. The caller closes the reader.
	Download(ctx context.Context, bundle plan.Bundle) (io.ReadCloser, error)
}

// Cache keeps bundles and fetches those it misses. It is safe for concurrent use. Close it after the last call.
type Cache struct {
	store    cas.Store
	upstream Upstream
	tracer   trace.Tracer
	logger   *slog.Logger
	counts   counts
	slots    *semaphore.Weighted
	running  sync.WaitGroup // of fills

	mu       sync.Mutex
	isClosed bool
	flights  map[digest.Digest]*flight
	// asked is where each bundle came from that somebody asked for lately; see Refetch.
	asked map[digest.Digest]plan.Bundle
}

// NewCache returns a Cache over a store.
func NewCache(store cas.Store, upstream Upstream, t *telemetry.Telemetry) (*Cache, error) {
	counts, err := newCounts(t.Meter(scope), store)
	if err != nil {
		return nil, err
	}
	return &Cache{
		store: store, upstream: upstream, tracer: t.Tracer(scope), logger: t.Logger(), counts: counts,
		slots:   semaphore.NewWeighted(maxFills),
		flights: make(map[digest.Digest]*flight), asked: make(map[digest.Digest]plan.Bundle),
	}, nil
}

// Close ends the fills that are running, and waits for them.
func (c *Cache) Close() {
	c.mu.Lock()
	c.isClosed = true
	for _, f := range c.flights {
		f.cancel(errClosed)
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Open returns all of a bundle's bytes. The caller closes them. Callers that miss the same bundle share one download,
// which continues when they give up, so that the next caller finds it. Errors are those of the store, of the upstream, or
// the context's.
func (c *Cache) Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error) {
	blob, f, err := c.find(ctx, bundle)
	if f == nil {
		return blob, err
	}
	select {
	case <-f.done:
		if f.err != nil {
			return nil, f.err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return c.store.Open(ctx, bundle.Digest)
}

// Content is a bundle's bytes: either the whole Blob, or those that are Growing.
type Content struct {
	// Blob is the bundle if the cache has it, and nil while it is being filled.
	Blob *cas.Blob
	// Growing reads a bundle that is being filled, from its first byte, as the bytes arrive. Its length is not known yet.
	// The last cas.HoldBack bytes are readable when the whole has been verified and stored. If that fails, so does the
	// reader. A caller that has passed bytes on must then break off instead of ending: the bytes may have been wrong.
	Growing io.ReadCloser
}

// Close closes the blob or the reader.
func (c Content) Close() error {
	if c.Blob != nil {
		return c.Blob.Close()
	}
	return c.Growing.Close()
}

// Stream is like Open, but waits only for the first bytes of a bundle that is being filled. It returns the error of a fill
// that fails before there are any, and of any failed fill of a bundle of at most cas.HoldBack bytes.
func (c *Cache) Stream(ctx context.Context, bundle plan.Bundle) (Content, error) {
	blob, f, err := c.find(ctx, bundle)
	if f == nil {
		return Content{Blob: blob}, err
	}
	// The draft is followed before its state is asked for: its bytes are kept for readers that came before its end.
	growing := f.draft.Follow(ctx)
	stored, err := f.draft.Ready(ctx)
	if err != nil {
		return Content{}, errors.Join(err, growing.Close())
	}
	if stored {
		if blob, err := c.store.Open(ctx, bundle.Digest); err == nil {
			return Content{Blob: blob}, growing.Close()
		}
	}
	return Content{Growing: growing}, nil
}

// find opens a bundle that the store has, or else returns the flight that will store it.
func (c *Cache) find(ctx context.Context, bundle plan.Bundle) (*cas.Blob, *flight, error) {
	c.remember(bundle)
	result := "stored"
	for {
		blob, err := c.store.Open(ctx, bundle.Digest)
		if err != nil && !errors.Is(err, cas.ErrNotFound) {
			c.counts.openedWith(ctx, "failed")
			return nil, nil, err
		}
		if err == nil {
			c.counts.openedWith(ctx, result)
			return blob, nil, nil
		}
		result = "missing"
		f, isStored, err := c.join(ctx, bundle)
		if !isStored {
			c.counts.openedWith(ctx, result)
			return nil, f, err
		}
	}
}
