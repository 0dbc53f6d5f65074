// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"slices"
	"time"
)

const (
	// MaxFill is how many blobs are asked for at once.
	MaxFill = 10_000
	// fillMemory is how long the upstream is not asked again after it failed: a thousand callers cost one request.
	fillMemory = 10 * time.Second
)

// fillFailure is why the upstream gave no blobs lately.
type fillFailure struct {
	err   error
	until time.Time
}

// FetchBlobs makes the partial mirror of that UID hold blobs here, on whatever replica this is. Errors are those of
// [Repository.FetchBlobs], and ErrUnknownRepository.
func (s *Set) FetchBlobs(ctx context.Context, uid string, ids []string) error {
	r, err := s.Find(uid)
	if err != nil {
		return err
	}
	return r.FetchBlobs(ctx, ids)
}

// FetchBlobs makes this replica's partial mirror hold blobs: where it is the owner by asking the upstream, else by having the
// owner do so and copying. ErrNotOwner: nobody can ask the upstream at the moment. Other errors are *UpstreamError,
// *QuietError, the context's, and what other replicas answer.
func (r *Repository) FetchBlobs(ctx context.Context, ids []string) error {
	for batch := range slices.Chunk(ids, MaxFill) {
		owner, err := r.Owner(ctx)
		switch {
		case err == nil && owner == r.shared.Self:
			err = r.Fill(ctx, batch)
		case err == nil && owner != "":
			err = r.fillThrough(ctx, owner, batch)
		default:
			err = r.fillFromOthers(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillThrough has the owner fetch, and copies what it has then.
func (r *Repository) fillThrough(ctx context.Context, owner string, ids []string) error {
	if err := r.shared.Replicas.FetchBlobs(ctx, owner, r.Definition(), ids); err != nil {
		r.ForgetOwner()
		return err
	}
	return r.catchUpWith(ctx, owner)
}

// fillFromOthers copies what some other replica may have added while there was an owner.
func (r *Repository) fillFromOthers(ctx context.Context) error {
	before, _ := r.Mirrored() // none is a value too
	err := r.Borrow(ctx)
	after, _ := r.Mirrored()
	if after.Fingerprint() != before.Fingerprint() {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("fetch blobs of %q: %w", r.name, errors.Join(mirror.ErrNotOwner, err))
}

// Fill fetches blobs into this replica's partial mirror. ErrNotOwner: only the owner may. The mirror of a repository that has
// stopped to be partial needs none, which is no error.
func (r *Repository) Fill(ctx context.Context, ids []string) error {
	if err := r.failedLately(); err != nil {
		return err
	}
	err := r.AsOwner(ctx, func(ctx context.Context, e mirror.OwnerTask) error { return r.fill(ctx, e, ids) })
	if _, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		r.noteFillFailure(err)
	}
	return err
}

func (r *Repository) fill(ctx context.Context, e mirror.OwnerTask, ids []string) error {
	if err := r.disk.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer r.disk.Release(1)
	have, err := r.Mirrored()
	if err != nil || !have.Partial {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.shared.Settings.CloneTimeout)
	defer cancel()
	filled, err := r.shared.Backend.Fill(ctx, mirror.FetchParams{
		Definition: e.Definition, Have: have, Epoch: r.Epoch(), Guard: e.Guard, Received: r.shared.metrics.receiver(ctx, false),
	}, ids)
	if err != nil {
		return err
	}
	if filled.Filled() != have.Filled() {
		r.takeFilled(filled)
		r.Announce()
	}
	return nil
}

// takeFilled takes over what filling changes, and no refs: those may have been judged anew meanwhile.
func (r *Repository) takeFilled(filled mirror.Content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.content
	c.FilledAt, c.DiskBytes, c.Packs = filled.FilledAt, filled.DiskBytes, filled.Packs
	r.setContentLocked(c)
	r.signalLocked()
}

func (r *Repository) failedLately() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.unfilled.until) {
		return r.unfilled.err
	}
	return nil
}

func (r *Repository) noteFillFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unfilled = fillFailure{err: err, until: time.Now().Add(fillMemory)}
}
