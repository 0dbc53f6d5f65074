// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundles keeps the bundles that agents download: it fetches each once from gitcache,
// verifies it, and keeps it on the node's disk. It also makes and keeps deltas between bundles.
// Package bundlehttp serves both.
//
// Callers that miss the same bundle share one download, a flight, which continues when they give
// up. Its bytes can be read as they arrive, but the last of them only when the whole has been
// verified and stored, so no reader comes to the end of wrong bytes. The states of a bundle are:
// missing, filling (a flight), stored. A flight that fails leaves it missing, and the next caller
// begins another one.
//
// Deltas are built on demand, a few at a time, from two bundles of the cache. A pair is unknown,
// being built, built, or declined: permanently if the delta is not smaller than the bundle, and for
// a minute if it could not be built. Nothing depends on a delta, so callers wait for one only a
// moment, and all of them are dropped at a restart.
//
// The lock of the flights is held while the store is asked for a bundle's presence, so that no
// bundle is fetched that has just been stored. Every lock of the package is taken alone.
//
// The package evicts nothing and repairs nothing: the store does, which keeps what plans name.
package bundles

import (
	"context"
	"errors"
	"io"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// maxAsked bounds the bundles whose origin is remembered.
const maxAsked = 1 << 14

// Cache keeps bundles and fetches those it misses. It is safe for concurrent use. Close it after
// the last call.
type Cache struct {
	store  cas.Store
	fills  *fills
	opened metric.Int64Counter
	// asked is where each bundle came from that a caller asked for lately; see Refetch.
	asked *lru.Cache[digest.Digest, plan.Bundle]
}

// NewCache returns a Cache over a store.
func NewCache(store cas.Store, upstream Upstream, t *telemetry.Telemetry) (*Cache, error) {
	opened, filled, err := newCounters(t.Meter(scope), store)
	if err != nil {
		return nil, err
	}
	asked, _ := lru.New[digest.Digest, plan.Bundle](maxAsked) // fails only for a limit that is not positive
	unfit, _ := lru.New[digest.Digest, struct{}](maxAsked)
	return &Cache{
		store: store, opened: opened, asked: asked,
		fills: &fills{
			store: store, upstream: upstream, tracer: t.Tracer(scope), logger: t.Logger(), count: filled,
			slots: semaphore.NewWeighted(maxFills), flights: map[digest.Digest]*fill{}, unfit: unfit,
		},
	}, nil
}

// Close ends the fills that are running, and waits for them.
func (c *Cache) Close() { c.fills.close() }

// Open returns all of a bundle's bytes. The caller closes them. Callers that miss the same bundle
// share one download, which continues when they give up, so that the next caller finds it. It
// returns the errors of the store, of the upstream, or the context's.
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

// Content is a bundle's bytes: either the whole Blob, or the Growing ones.
type Content struct {
	// Blob is the bundle if the cache has it, and nil while it is being filled.
	Blob *cas.Blob
	// Growing reads a bundle that is being filled, from its first byte, as the bytes arrive. Its
	// length is not known yet. The last cas.HoldBack bytes are readable when the whole has been
	// verified and stored. If that fails, so does the reader. A caller that has passed bytes on
	// must then break off instead of ending: the bytes may have been wrong.
	Growing io.ReadCloser
}

// Close closes the blob or the reader.
func (c Content) Close() error {
	if c.Blob != nil {
		return c.Blob.Close()
	}
	return c.Growing.Close()
}

// Stream is like Open, but waits only for the first bytes of a bundle that is being filled. It
// returns the error of a fill that fails before there are any, and of any failed fill of a bundle
// of at most cas.HoldBack bytes. A bundle for which the store had no room the last time is passed on
// only once it is stored: an answer that breaks off would not tell the caller why.
func (c *Cache) Stream(ctx context.Context, bundle plan.Bundle) (Content, error) {
	if c.fills.unfit.Contains(bundle.Digest) {
		blob, err := c.Open(ctx, bundle)
		return Content{Blob: blob}, err
	}
	blob, f, err := c.find(ctx, bundle)
	if f == nil {
		return Content{Blob: blob}, err
	}
	// The draft is followed before its state is asked for: its bytes are kept for readers that came
	// before its end.
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

// countOpened counts a bundle that was asked for.
func (c *Cache) countOpened(ctx context.Context, result string) {
	c.opened.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.bundle.result", result)))
}

// find opens a bundle that the store has, or else returns the flight that will store it.
func (c *Cache) find(ctx context.Context, bundle plan.Bundle) (*cas.Blob, *fill, error) {
	c.asked.Add(bundle.Digest, bundle)
	result := "stored"
	// A bundle that is stored between the look and the flight is looked for again, and may be
	// evicted in between.
	for {
		blob, err := c.store.Open(ctx, bundle.Digest)
		if err != nil && !errors.Is(err, cas.ErrNotFound) {
			c.countOpened(ctx, "failed")
			return nil, nil, err
		}
		if err == nil {
			c.countOpened(ctx, result)
			return blob, nil, nil
		}
		result = "missing"
		f, isStored, err := c.fills.join(ctx, bundle)
		if !isStored {
			c.countOpened(ctx, result)
			return nil, f, err
		}
	}
}

// Refetch fetches a bundle that the store has lost again, if a caller asked for it lately. It does
// not wait, and does not report a failure: the next caller that needs the bundle meets it.
func (c *Cache) Refetch(ctx context.Context, d digest.Digest) {
	if bundle, known := c.asked.Peek(d); known {
		_, _, _ = c.fills.join(ctx, bundle) // the error is that the cache is closed
	}
}
