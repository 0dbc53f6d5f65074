// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundles serves bundles over plain HTTP, from a verified cache on the node's disk that is filled from gitcache
// when it misses.
package bundles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

const (
	// maxFills bounds how many bundles are filled at once; further ones wait.
	maxFills = 16
	// fillTimeout bounds one fill, which outlives the caller that began it.
	fillTimeout = 10 * time.Minute
	// scope names the package's tracer and meter.
	scope = "github.com/leatdev/leat/services/distributor/internal/bundles"
)

// Upstream is where bundles come from.
type Upstream interface {
	// Download returns the bytes of a bundle, unverified. The caller closes the reader.
	Download(ctx context.Context, bundle plan.Bundle) (io.ReadCloser, error)
}

// Cache keeps bundles and fetches those it misses. It is safe for concurrent use.
type Cache struct {
	store    cas.Store
	upstream Upstream
	tracer   trace.Tracer
	logger   *slog.Logger
	fills    metric.Int64Counter
	flights  singleflight.Group
	slots    *semaphore.Weighted
}

// NewCache returns a Cache over a store.
func NewCache(store cas.Store, upstream Upstream, t *telemetry.Telemetry) (*Cache, error) {
	meter := t.Meter(scope)
	fills, err := meter.Int64Counter("leat.bundle.fill", metric.WithUnit("{fill}"),
		metric.WithDescription("Bundles fetched into the node's cache, by outcome."))
	if err != nil {
		return nil, fmt.Errorf("make counter: %w", err)
	}
	c := &Cache{store: store, upstream: upstream, tracer: t.Tracer(scope), logger: t.Logger(), fills: fills, slots: semaphore.NewWeighted(maxFills)}
	_, err = meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles on the node's disk."),
		metric.WithInt64Callback(c.observeUsage))
	if err != nil {
		return nil, fmt.Errorf("make gauge: %w", err)
	}
	return c, nil
}

func (c *Cache) observeUsage(ctx context.Context, o metric.Int64Observer) error {
	usage, err := c.store.Usage(ctx)
	if err == nil {
		o.Observe(usage.Bytes)
	}
	return err
}

// Open returns a bundle's bytes; the caller closes them. Callers that miss the same bundle share one download, which
// goes on when they give up, so that the next one finds it. Errors are those of the store, of the upstream, or the
// context's.
func (c *Cache) Open(ctx context.Context, bundle plan.Bundle) (*cas.Blob, error) {
	blob, err := c.store.Open(ctx, bundle.Digest)
	if !errors.Is(err, cas.ErrNotFound) {
		return blob, err
	}
	flight := c.flights.DoChan(bundle.Digest.String(), func() (any, error) {
		return nil, c.fill(context.WithoutCancel(ctx), bundle)
	})
	select {
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return c.store.Open(ctx, bundle.Digest)
}

func (c *Cache) fill(ctx context.Context, bundle plan.Bundle) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.slots.Release(1)
	ctx, span := c.tracer.Start(ctx, "bundle.fill", trace.WithAttributes(
		attribute.String(telemetry.KeyRepository, bundle.Source.Repository),
		attribute.String(telemetry.KeyDigest, bundle.Digest.String()),
	))
	defer span.End()
	if err = c.fetch(ctx, bundle); err != nil {
		span.SetStatus(codes.Error, err.Error())
		c.fills.Add(ctx, 1, metric.WithAttributes(attribute.String(telemetry.KeyErrorType, problemOf(err).name())))
		if errors.Is(err, cas.ErrFull) { // the other failures are somebody else's, and told by gitcache or in a status
			c.logger.ErrorContext(ctx, "bundle cache has no room", slog.String(telemetry.KeyRepository, bundle.Source.Repository),
				slog.String(telemetry.KeyDigest, bundle.Digest.String()), slog.Any("error", err))
		}
		return err
	}
	c.fills.Add(ctx, 1)
	return nil
}

func (c *Cache) fetch(ctx context.Context, bundle plan.Bundle) error {
	r, err := c.upstream.Download(ctx, bundle)
	if err != nil {
		return err
	}
	_, err = c.store.Put(ctx, bundle.Digest, r)
	// Closing ends the call; its error tells nothing that Put has not told.
	_ = r.Close()
	return err
}
