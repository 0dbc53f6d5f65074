// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	maxCopies = 4 // at once on this replica, for followers
	// listenRetry is the pause before the log of events is read anew.
	listenRetry = 2 * time.Second
	followRetry = 10 * time.Second
)

// errCompacted tells that what was being copied has made way for something newer: it is there to be copied.
var errCompacted = errors.New("copy mirror: the other replica's files are others now")

// listen tells followers when an owner published something, until ctx is done. What it misses is noticed at the next poll.
func (s *Set) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_, token, err := s.shared.Events.States(ctx)
		if err == nil {
			for _, r := range s.List() {
				r.hear()
			}
			err = s.listenFrom(ctx, token)
		}
		if ctx.Err() == nil {
			s.shared.Logger.DebugContext(ctx, "events not heard", slog.Any("error", err))
			_ = backoff.Wait(ctx, backoff.Jitter(listenRetry, 0.5)) // the loop's condition looks at ctx
		}
	}
}

func (s *Set) listenFrom(ctx context.Context, token string) error {
	for ctx.Err() == nil {
		batch, err := s.shared.Events.Read(ctx, token)
		if err != nil {
			return err
		}
		for _, logged := range batch {
			token = logged.Token
			if r, err := s.Get(logged.Event.Repository); err == nil {
				r.hear()
			}
		}
	}
	return context.Cause(ctx)
}

// hear makes a follower look at what the owner has.
func (r *Repository) hear() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// reconsider makes this replica look at the owner's mirror at once where it has become a follower without one.
func (r *Repository) reconsider() {
	if _, err := r.Mirrored(); err != nil && r.Epoch() == 0 {
		r.hear()
	}
}

// follow keeps this replica's copy in step with the owner's mirror, as long as it is a follower, until ctx is done. It looks
// after every event, and as often as the owner polls, to learn how fresh the copy is.
func (r *Repository) follow(ctx context.Context) {
	failures := 0
	for {
		wait := backoff.Jitter(r.pollInterval(), pollSpread)
		if failures > 0 {
			wait = min(wait, backoff.Policy{Initial: time.Second, Max: followRetry}.Delay(failures-1))
		}
		if r.awaitNews(ctx, wait) != nil {
			return
		}
		err := r.catchUp(ctx)
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() == nil && failures == 0 {
			r.shared.Logger.InfoContext(ctx, "mirror not copied, trying again",
				slog.String("leat.repository", r.name), slog.Any("error", err))
		}
		failures++
	}
}

func (r *Repository) pollInterval() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.interval()
}

func (r *Repository) awaitNews(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.news:
	case <-timer.C:
	}
	return nil
}

// catchUp copies what the owner has and this replica lacks, if it is one that should have it. Nothing to copy is no error.
func (r *Repository) catchUp(ctx context.Context) error {
	if r.Epoch() != 0 {
		return nil
	}
	owner, err := r.Owner(ctx)
	if err != nil || !r.follows(owner) {
		return err
	}
	return r.catchUpWith(ctx, owner)
}

// catchUpWith copies what another replica has and this one lacks.
func (r *Repository) catchUpWith(ctx context.Context, owner string) error {
	done, err := r.shared.copySlot(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := r.disk.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer r.disk.Release(1)
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	if !r.beginCopy(cancel) {
		return nil
	}
	defer r.endCopy()
	err = r.copyFrom(copying, owner)
	if err == nil {
		err = r.copyObjects(copying, owner)
	}
	if errors.Is(err, mirror.ErrNoMirror) || r.Epoch() != 0 { // its event will tell; or the tenure has begun and sees for itself
		return nil
	}
	return err
}

// copySlot waits for the right to copy.
func (s *shared) copySlot(ctx context.Context) (release func(), err error) {
	defer s.metrics.wait(queueCopy)()
	if err := s.copies.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.copies.Release(1) }, nil
}

// beginCopy makes a tenure that begins end the copy. False: one has begun already.
func (r *Repository) beginCopy(cancel context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopCopy = cancel
	return r.epoch == 0
}

func (r *Repository) endCopy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopCopy = nil
}

// follows tells whether this replica should keep a copy of the owner's mirror: it is one of the next in rendezvous order,
// or, where the owner should not be the owner, the one who should. "": nobody owns it.
func (r *Repository) follows(owner string) bool {
	order := rendezvous.Order(r.kin, r.shared.Peers.Members())
	wanted := r.shared.Settings.Followers
	if len(order) > 0 && order[0] != owner {
		wanted = max(wanted, 1)
	}
	for _, member := range order {
		switch {
		case member == owner:
			continue
		case owner == "" || wanted == 0:
			return false
		case member == r.shared.Self:
			return true
		}
		wanted--
	}
	return false
}

// inherit fills an empty mirror from whatever replica holds one, so that the upstream is asked only for what is new. Where
// nobody does it leaves the mirror empty.
func (r *Repository) inherit(ctx context.Context) {
	for _, member := range r.Others() {
		if ctx.Err() != nil {
			return
		}
		err := r.copyFrom(ctx, member)
		if err == nil {
			if err := r.copyObjects(ctx, member); err != nil { // each is asked for again when it is needed
				r.shared.Logger.InfoContext(ctx, "objects not inherited", slog.String("leat.repository", r.name), slog.Any("error", err))
			}
			r.shared.Logger.InfoContext(ctx, "mirror inherited", slog.String("leat.repository", r.name), slog.String("from", member))
			return
		}
		if !errors.Is(err, mirror.ErrNoMirror) {
			r.shared.Logger.InfoContext(ctx, "mirror not inherited",
				slog.String("leat.repository", r.name), slog.String("from", member), slog.Any("error", err))
		}
	}
}

// copyFrom makes this replica's mirror hold what another's does, unless it is newer. The caller has the disk.
func (r *Repository) copyFrom(ctx context.Context, replica string) error {
	mine, _ := r.Mirrored() // none is a value too
	def := r.Definition()
	asking, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	theirs, err := r.shared.Replicas.Inspect(asking, replica, def, mine.Fingerprint())
	if err != nil {
		return fmt.Errorf("inspect mirror: %w", err)
	}
	if mine.Exists() && !theirs.Content.Newer(mine) {
		return nil
	}
	if mine.Exists() && theirs.Fingerprint == mine.Fingerprint() {
		mine.FreshAt, mine.Epoch = theirs.Content.FreshAt, theirs.Content.Epoch
		if err := r.shared.Backend.Confirm(ctx, r.uid, mine); err != nil {
			return err
		}
		r.adopt(mine)
		return nil
	}
	if err := theirs.Check(); err != nil {
		return err
	}
	theirs.Doubted = !mine.Exists()
	content, err := r.adoptFrom(ctx, replica, theirs)
	if errors.Is(err, mirror.ErrNoMirror) {
		return errCompacted
	}
	if err != nil {
		return fmt.Errorf("copy mirror: %w", err)
	}
	r.adopt(content)
	return nil
}

// adoptFrom copies the files that this replica's mirror lacks.
func (r *Repository) adoptFrom(ctx context.Context, replica string, theirs mirror.Copy) (mirror.Content, error) {
	limited, stop := context.WithTimeout(ctx, r.shared.Settings.CloneTimeout)
	defer stop()
	limited, span := r.shared.Tracer.Start(limited, "mirror.copy", trace.WithAttributes(
		attribute.String("leat.repository", r.name), attribute.String("leat.repository.uid", r.uid),
		attribute.Int64("leat.epoch", int64(theirs.Content.Epoch)), attribute.String("leat.copy.from", mirror.ReplicaURL(replica))))
	defer span.End()
	started, def := time.Now(), r.Definition()
	content, err := r.shared.Backend.Adopt(limited, r.uid, theirs, func(ctx context.Context, f mirror.File) (io.ReadCloser, error) {
		return r.shared.Replicas.Read(ctx, replica, def, theirs.Generation, f.Name)
	})
	if err != nil {
		span.SetStatus(codes.Error, "copy did not succeed")
	}
	r.shared.metrics.copied(limited, time.Since(started), err)
	return content, err
}

func (r *Repository) adopt(c mirror.Content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setContentLocked(c)
	r.signalLocked()
}
