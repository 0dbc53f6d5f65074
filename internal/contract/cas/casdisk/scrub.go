// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/kit/backoff"
)

const (
	// scrubIdle bounds how long scrubbing waits before it looks for work again, and scrubStart is
	// how long it leaves a new process alone.
	scrubIdle, scrubStart = 10 * time.Minute, time.Minute
	// scrubPiece is the number of bytes read at once.
	scrubPiece = 128 << 10
)

// Run maintains the store until ctx is done, and returns the context's cause. It evicts when a mark
// is passed, see Config, and scrubs, which means that it periodically reads every blob again. It
// calls lost with each blob that scrubbing found damaged, after dropping it, so that the owner can
// put it again. A nil lost is not called. A store works without Run, but evicts late and notices
// damage late.
func (s *Store) Run(ctx context.Context, lost func(digest.Digest)) error {
	if lost == nil {
		lost = func(digest.Digest) {}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keepRoom(ctx) })
	group.Go(func() error { return s.scrub(ctx, lost) })
	return group.Wait()
}

// scrub repeatedly reads the blob that was checked longest ago, as soon as it is due.
func (s *Store) scrub(ctx context.Context, lost func(digest.Digest)) error {
	wait := scrubStart
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(wait, 0.25)); err != nil {
			return err
		}
		e, known, ok := s.index.Stalest()
		wait = min(scrubIdle, s.cfg.ScrubEvery)
		if !ok {
			continue
		}
		if due := time.Until(known.Checked.Add(s.cfg.ScrubEvery)); due > 0 {
			wait = min(wait, due)
			continue
		}
		s.scrubOne(ctx, e, lost)
		wait = scrubPause(s.cfg.ScrubRate)
	}
}

// scrubPause returns how long reading one piece takes at the rate, which is the cost of opening a
// small blob.
func scrubPause(rate int64) time.Duration {
	return time.Duration(scrubPiece * int64(time.Second) / rate)
}

func (s *Store) scrubOne(ctx context.Context, e *blobindex.Entry, lost func(digest.Digest)) {
	err := s.check(ctx, e, func(f *file) io.Reader {
		f.forget()
		return &slowReader{ctx: ctx, in: f, rate: s.cfg.ScrubRate}
	})
	switch {
	case err == nil:
		if s.cfg.Hooks.Scrubbed != nil {
			s.cfg.Hooks.Scrubbed(e.Info)
		}
	case ctx.Err() != nil, errors.Is(err, errReplaced):
	case s.index.Present(e): // the blob could not be read
		s.index.CheckedNow(e, func(*blobindex.Facts) {})
	default:
		lost(e.Info.Digest)
	}
}

// slowReader reads at a limited rate.
type slowReader struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no other way to be cancelled
	in   io.Reader
	rate int64 // bytes per second
}

func (r *slowReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p[:min(len(p), scrubPiece)])
	if n > 0 {
		pause := time.Duration(int64(n) * int64(time.Second) / r.rate)
		if err := backoff.Wait(r.ctx, backoff.Jitter(pause, 0.25)); err != nil {
			return n, err
		}
	}
	return n, err
}
