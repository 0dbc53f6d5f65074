// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/plan"
)

const (
	// fillMemory bounds what all fills hold in memory together, and memoryOfFill is the most that one holds: the window of
	// the decompressor that proves its bytes, and a message of the stream they come in.
	fillMemory   = 320 << 20
	memoryOfFill = 20 << 20
	// maxFills bounds how many bundles are filled at once; further ones wait.
	maxFills = fillMemory / memoryOfFill
	// fillTimeout bounds one fill, which outlives the caller that began it, from when it is its turn.
	fillTimeout = 10 * time.Minute
	// maxAsked bounds the bundles whose origin is remembered.
	maxAsked = 1 << 14
)

// errClosed ends fills when the cache is closed.
var errClosed = errors.New("bundle cache is closed")

// flight is the one fill of a bundle that many may wait for.
type flight struct {
	draft  *cas.Draft
	cancel context.CancelCauseFunc
	done   chan struct{} // closed at the end
	err    error         // valid once done is closed
}

// fly returns the bundle's flight, which it begins where there is none. It goes on when ctx is done. landed tells that
// there is none because the store has got the bundle since the caller looked.
func (c *Cache) fly(ctx context.Context, bundle plan.Bundle) (f *flight, landed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[bundle.Digest]; ok && !f.draft.Ended() { // one that has failed is nobody's answer any more
		return f, false, nil
	}
	if c.closed {
		return nil, false, errClosed
	}
	if _, err := c.store.Stat(ctx, bundle.Digest); err == nil {
		return nil, true, nil
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f = &flight{draft: c.store.Begin(bundle.Digest), cancel: cancel, done: make(chan struct{})}
	c.flights[bundle.Digest] = f
	c.running.Go(func() {
		defer cancel(nil)
		f.err = c.fill(ctx, bundle, f.draft)
		c.mu.Lock()
		if c.flights[bundle.Digest] == f {
			delete(c.flights, bundle.Digest)
		}
		c.mu.Unlock()
		close(f.done)
	})
	return f, false, nil
}

// fill fills a draft when it is its turn, and tells how that went.
func (c *Cache) fill(ctx context.Context, bundle plan.Bundle, draft *cas.Draft) error {
	if err := c.slots.Acquire(ctx, 1); err != nil {
		err = context.Cause(ctx)
		draft.Fail(err)
		return err
	}
	defer c.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	ctx, span := c.tracer.Start(ctx, "bundle.fill", trace.WithAttributes(
		attribute.String(telemetry.KeyRepository, bundle.Source.Repository),
		attribute.String(telemetry.KeyDigest, bundle.Digest.String()),
	))
	defer span.End()
	err := c.fetch(ctx, bundle, draft)
	if err == nil {
		c.counts.fills.Add(ctx, 1)
		return nil
	}
	span.SetStatus(codes.Error, err.Error())
	c.counts.fills.Add(ctx, 1, metric.WithAttributes(attribute.String(telemetry.KeyErrorType, string(ReasonOf(err)))))
	if errors.Is(err, cas.ErrFull) { // the other failures are somebody else's, and told by gitcache or in a status
		c.logger.ErrorContext(ctx, "bundle cache has no room", slog.String(telemetry.KeyRepository, bundle.Source.Repository),
			slog.String(telemetry.KeyDigest, bundle.Digest.String()), slog.Any("error", err))
	}
	return err
}

func (c *Cache) fetch(ctx context.Context, bundle plan.Bundle, draft *cas.Draft) error {
	r, err := c.upstream.Download(ctx, bundle)
	if err != nil {
		draft.Fail(err)
		return err
	}
	// Closing ends the call; its error tells nothing that Fill does not tell.
	defer func(r io.Closer) { _ = r.Close() }(r)
	_, err = draft.Fill(ctx, r)
	return err
}

// remember notes where a bundle comes from.
func (c *Cache) remember(bundle plan.Bundle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.asked[bundle.Digest]; !known && len(c.asked) >= maxAsked {
		for victim := range c.asked { // whichever comes first
			delete(c.asked, victim)
			break
		}
	}
	c.asked[bundle.Digest] = bundle
}

// Refetch fetches a bundle again that the store has lost, if somebody asked for it lately. It does not wait for it, and a
// failure is not told: whoever needs the bundle meets it again.
func (c *Cache) Refetch(ctx context.Context, d digest.Digest) {
	c.mu.Lock()
	bundle, known := c.asked[d]
	c.mu.Unlock()
	if known {
		_, _, _ = c.fly(ctx, bundle) // the error says that the cache is closed
	}
}
