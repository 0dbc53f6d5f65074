// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

const (
	// fillMemory bounds the memory of all fills together, and memoryOfFill is the most that one
	// holds: the window of the decompressor that verifies its bytes, and a message of the stream
	// that brings them.
	fillMemory   = 320 << 20
	memoryOfFill = 20 << 20
	// maxFills bounds how many bundles are filled at once; further ones wait.
	maxFills = fillMemory / memoryOfFill
	// fillTimeout bounds one fill, which outlives the caller that began it. It counts from the
	// fill's turn.
	fillTimeout = 10 * time.Minute
)

// errClosed ends fills when the cache is closed.
var errClosed = errors.New("bundle cache is closed")

// fill is the one fill of a bundle under way, which many callers may wait for. Unlike a
// [flight.Run] it can be read while it grows, and ended from outside.
type fill struct {
	draft  *cas.Draft
	cancel context.CancelCauseFunc
	// done is closed at the end, after err was set.
	done chan struct{}
	err  error
}

// Upstream is where bundles come from.
type Upstream interface {
	// Download returns the bytes of a bundle, unverified. The caller closes the reader.
	Download(ctx context.Context, bundle plan.Bundle) (io.ReadCloser, error)
}

// fills fetches bundles that the store misses, each by one flight. It is safe for concurrent use.
type fills struct {
	store    cas.Store
	upstream Upstream
	tracer   trace.Tracer
	logger   *slog.Logger
	count    metric.Int64Counter
	slots    *semaphore.Weighted
	running  sync.WaitGroup // of flights
	// unfit are bundles for which the store had no room when they were last filled.
	unfit *lru.Cache[digest.Digest, struct{}]

	mu       sync.Mutex
	isClosed bool
	flights  map[digest.Digest]*fill
}

// close ends the flights, and waits for them.
func (s *fills) close() {
	s.mu.Lock()
	s.isClosed = true
	for _, f := range s.flights {
		f.cancel(errClosed)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// join returns the bundle's flight. It begins one if there is none. The flight continues when ctx
// is done. isStored is true if there is no flight because the store has received the bundle since
// the caller looked.
func (s *fills) join(ctx context.Context, bundle plan.Bundle) (f *fill, isStored bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.flights[bundle.Digest]; ok && !f.draft.Ended() { // one that has failed answers no further callers
		return f, false, nil
	}
	if s.isClosed {
		return nil, false, errClosed
	}
	if _, err := s.store.Stat(ctx, bundle.Digest); err == nil {
		return nil, true, nil
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f = &fill{draft: s.store.Begin(bundle.Digest), cancel: cancel, done: make(chan struct{})}
	s.flights[bundle.Digest] = f
	s.running.Go(func() {
		defer cancel(nil)
		f.err = s.fill(ctx, bundle, f.draft)
		s.mu.Lock()
		if s.flights[bundle.Digest] == f {
			delete(s.flights, bundle.Digest)
		}
		s.mu.Unlock()
		close(f.done)
	})
	return f, false, nil
}

// fill fills a draft when it is its turn, and counts and traces the outcome.
func (s *fills) fill(ctx context.Context, bundle plan.Bundle, draft *cas.Draft) error {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		err = context.Cause(ctx)
		draft.Fail(err)
		return err
	}
	defer s.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	ctx, span := s.tracer.Start(ctx, "bundle.fill", trace.WithAttributes(
		attribute.String(telemetry.KeyRepository, bundle.Source.Repository),
		attribute.String(telemetry.KeyDigest, bundle.Digest.String()),
	))
	defer span.End()
	err := s.fetch(ctx, bundle, draft)
	if err == nil {
		s.unfit.Remove(bundle.Digest)
		s.count.Add(ctx, 1)
		return nil
	}
	span.SetStatus(codes.Error, err.Error())
	s.count.Add(ctx, 1, metric.WithAttributes(attribute.String(telemetry.KeyErrorType, ReasonOf(err).String())))
	if errors.Is(err, cas.ErrFull) { // gitcache logs the other failures, and statuses show them
		s.unfit.Add(bundle.Digest, struct{}{})
		s.logger.ErrorContext(ctx, "bundle cache has no room", slog.String(telemetry.KeyRepository, bundle.Source.Repository),
			slog.String(telemetry.KeyDigest, bundle.Digest.String()), slog.Any("error", err))
	}
	return err
}

func (s *fills) fetch(ctx context.Context, bundle plan.Bundle, draft *cas.Draft) error {
	r, err := s.upstream.Download(ctx, bundle)
	if err != nil {
		draft.Fail(err)
		return err
	}
	// Closing ends the call. Fill returns every error that matters.
	defer func(r io.Closer) { _ = r.Close() }(r)
	_, err = draft.Fill(ctx, r)
	return err
}
