// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// MaxFill is how many blobs are asked for at once.
	MaxFill = 10_000
	// fillMemory is how long the upstream is not asked again after it failed: a thousand callers
	// cost one request.
	fillMemory = 10 * time.Second
)

// blobFetcher gets the content of files that a partial mirror lacks.
type blobFetcher struct {
	shared   *shared
	status   *status
	owners   *ownerLookup
	local    *localMirror
	tasks    *ownerTasks
	inbox    *inbox
	follower *follower
	failure  atomic.Pointer[fillFailure] // the last one; nil: there is none
}

// fillFailure is why the upstream gave no blobs.
type fillFailure struct {
	err   error
	until time.Time // it counts until then
}

// fetch makes this replica's mirror hold blobs, as [Repository.FetchBlobs] says.
func (b *blobFetcher) fetch(ctx context.Context, ids []string) error {
	for batch := range slices.Chunk(ids, MaxFill) {
		owner, err := b.owners.find(ctx)
		switch {
		case err == nil && owner == b.shared.Self:
			err = b.fill(ctx, batch)
		case err == nil && owner != "":
			err = b.fetchThrough(ctx, owner, batch)
		default:
			err = b.fetchFromOthers(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchThrough has the owner ask the upstream, and copies what the owner has then.
func (b *blobFetcher) fetchThrough(ctx context.Context, owner string, ids []string) error {
	if err := b.shared.Replicas.FetchBlobs(ctx, owner, b.status.definition(), ids); err != nil {
		b.owners.forget()
		return err
	}
	return b.follower.copier.catchUp(ctx, owner)
}

// fetchFromOthers copies what some other replica may have added while there was an owner.
func (b *blobFetcher) fetchFromOthers(ctx context.Context) error {
	before := b.status.holding.read().content.Fingerprint()
	err := b.follower.borrow(ctx)
	if b.status.holding.read().content.Fingerprint() != before {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("fetch blobs of %q: %w", b.status.name, errors.Join(mirror.ErrNotOwner, err))
}

// fill asks the upstream for blobs, which only the owner may.
func (b *blobFetcher) fill(ctx context.Context, ids []string) error {
	if f := b.failure.Load(); f != nil && time.Now().Before(f.until) {
		return f.err
	}
	err := b.tasks.run(ctx, func(ctx context.Context, task mirror.OwnerTask) error { return b.fillMirror(ctx, task, ids) })
	if _, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		b.failure.Store(&fillFailure{err: err, until: time.Now().Add(fillMemory)})
	}
	return err
}

func (b *blobFetcher) fillMirror(ctx context.Context, task mirror.OwnerTask, ids []string) error {
	unlock, err := b.local.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have := b.status.holding.read().content
	if !have.Exists() {
		return &mirror.NotReadyError{Repository: b.status.name, Problem: b.status.fetching.read().problem}
	}
	if !have.Partial {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.shared.Settings.CloneTimeout)
	defer cancel()
	filled, err := b.shared.Backend.Fill(ctx, mirror.FetchParams{
		Definition: task.Definition, Have: have, Epoch: b.status.epoch(), Guard: task.Guard,
		Received: b.shared.metrics.receiver(ctx, false),
	}, ids)
	if err != nil {
		return err
	}
	if filled.Filled() != have.Filled() {
		b.status.holding.amend(func(c *mirror.Content) {
			c.FilledAt, c.DiskBytes, c.Packs = filled.FilledAt, filled.DiskBytes, filled.Packs
		})
		b.inbox.announce()
	}
	return nil
}

// forgetFailure has the upstream asked again at once.
func (b *blobFetcher) forgetFailure() { b.failure.Store(nil) }
