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
	// fillMemory bounds the memory of all fills together, and memoryOfFill is the most that one holds: the window of the
	// decompressor that verifies its bytes, and a message of the stream that brings them.
	fillMemory   = 320 << 20
	memoryOfFill = 20 << 20
	// maxFills bounds how many bundles are filled at once; further ones wait.
	maxFills = fillMemory / memoryOfFill
	// fillTimeout bounds one fill, which outlives the caller that began it. It counts from the fill's turn.
	fillTimeout = 10 * time.Minute
	// maxAsked bounds the bundles whose origin is remembered.
	maxAsked = 1 << 14
)

// errClosed ends fills when the cache is closed.
var errClosed = errors.New("bundle cache is closed")

// flight is the one fill of a bundle that many callers may wait for.
type flight struct {
	draft  *cas.Draft
	cancel context.CancelCauseFunc
	// done is closed at the end, after err was set.
	done chan struct{}
	err  error
}

// join returns the bundle's flight. It begins one if there is none. The flight continues when ctx is done. isStored is true
// if there is no flight because the store has received the bundle since the caller looked.
func (c *Cache) join(ctx context.Context, bundle plan.Bundle) (f *flight, isStored bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[bundle.Digest]; ok && !f.draft.Ended() { // one that has failed answers no further callers
		return f, false, nil
	}
	if c.isClosed {
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

// fill fills a draft when it is its turn, and counts and traces the outcome.
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
	if errors.Is(err, cas.ErrFull) { // gitcache logs the other failures, and statuses show them
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
	// Closing ends the call. Fill returns every error that matters.
	defer func(r io.Closer) { _ = r.Close() }(r)
	_, err = draft.Fill(ctx, r)
	return err
}

// remember records where a bundle comes from. Beyond maxAsked it forgets another one.
func (c *Cache) remember(bundle plan.Bundle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.asked[bundle.Digest]; !known && len(c.asked) >= maxAsked {
		for victim := range c.asked { // any of them
			delete(c.asked, victim)
			break
		}
	}
	c.asked[bundle.Digest] = bundle
}

// Refetch fetches a bundle that the store has lost again, if somebody asked for it lately. It does not wait, and does not
// report a failure: the next caller that needs the bundle meets it.
func (c *Cache) Refetch(ctx context.Context, d digest.Digest) {
	c.mu.Lock()
	bundle, known := c.asked[d]
	c.mu.Unlock()
	if known {
		_, _, _ = c.join(ctx, bundle) // the error says that the cache is closed
	}
}
