// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/digest"
)

const (
	defaultScrubEvery = 24 * time.Hour
	defaultScrubRate  = 4 << 20
	// scrubIdle is how long scrubbing waits at most before it looks for work, and scrubStart how
	// long it leaves a process that has just started alone.
	scrubIdle, scrubStart = 10 * time.Minute, time.Minute
	// scrubPiece is read at once.
	scrubPiece = 128 << 10
)

// Run keeps house until ctx is done, and returns its cause: it evicts when a mark is passed, see
// Config, and scrubs, which is to read every blob again now and then. lost is called with each blob
// that scrubbing found damaged, after it has been dropped; whoever needs it may put it again. Nil:
// nobody is told. A store works without Run, but evicts late and notices damage late.
func (s *Store) Run(ctx context.Context, lost func(digest.Digest)) error {
	if lost == nil {
		lost = func(digest.Digest) {}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keepRoom(ctx) })
	group.Go(func() error { return s.scrub(ctx, lost) })
	return group.Wait()
}

// scrub reads the blob that was checked longest ago, as soon as it is due, and so on.
func (s *Store) scrub(ctx context.Context, lost func(digest.Digest)) error {
	wait := scrubStart
	for {
		if err := backoff.Wait(ctx, backoff.Jitter(wait, 0.25)); err != nil {
			return err
		}
		e, known, ok := s.index.stalest()
		wait = min(scrubIdle, s.cfg.ScrubEvery)
		if !ok {
			continue
		}
		if due := time.Until(known.checked.Add(s.cfg.ScrubEvery)); due > 0 {
			wait = min(wait, due)
			continue
		}
		s.scrubOne(ctx, e, lost)
		wait = scrubPause(s.cfg.ScrubRate)
	}
}

// scrubPause is the time of one piece: what opening a blob costs, if it is small.
func scrubPause(rate int64) time.Duration {
	return time.Duration(scrubPiece * int64(time.Second) / rate)
}

func (s *Store) scrubOne(ctx context.Context, e *entry, lost func(digest.Digest)) {
	err := s.check(ctx, e, func(f *file) io.Reader {
		f.forget()
		return &slowReader{ctx: ctx, in: f, rate: s.cfg.ScrubRate}
	})
	switch {
	case err == nil:
		if s.cfg.Hooks.Scrubbed != nil {
			s.cfg.Hooks.Scrubbed(e.info)
		}
	case ctx.Err() != nil, errors.Is(err, errReplaced):
	case s.index.present(e): // it could not be looked at
		s.index.checkedNow(e, func(*facts) {})
	default:
		lost(e.info.Digest)
	}
}

// slowReader reads at a rate.
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
