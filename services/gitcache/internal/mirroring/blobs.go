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

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// MaxFill is how many blobs are asked for at once.
	MaxFill = 10_000
	// MaxPin is how many refs are looked up at once.
	MaxPin = 100
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
	fills    *semaphore.Weighted         // of one: two fills would download the same
	failure  atomic.Pointer[fillFailure] // the last one; nil: there is none
}

// fillFailure is why the upstream gave no blobs.
type fillFailure struct {
	err   error
	until time.Time // it counts until then
}

// fetch makes this replica's mirror hold blobs, see [Repository.FetchBlobs].
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

// ask asks the upstream, which only the owner may. A failure of the upstream is remembered for a while,
// for every call.
func (b *blobFetcher) ask(ctx context.Context, do func(context.Context, mirror.OwnerTask) error) error {
	if f := b.failure.Load(); f != nil && time.Now().Before(f.until) {
		return f.err
	}
	err := b.tasks.run(ctx, do)
	if _, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		b.failure.Store(&fillFailure{err: err, until: time.Now().Add(fillMemory)})
	}
	return err
}

// fill asks the upstream for blobs.
func (b *blobFetcher) fill(ctx context.Context, ids []string) error {
	return b.ask(ctx, func(ctx context.Context, task mirror.OwnerTask) error { return b.fillMirror(ctx, task, ids) })
}

// fillMirror excludes other fills of the repository, and writers of the mirror only where the back end
// enters it.
func (b *blobFetcher) fillMirror(ctx context.Context, task mirror.OwnerTask, ids []string) error {
	if err := b.fills.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer b.fills.Release(1)
	have, err := b.filled()
	if err != nil {
		return err
	}
	if !have.Partial {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.shared.Settings.CloneTimeout)
	defer cancel()
	_, err = b.shared.Backend.Fill(ctx, mirror.FetchParams{
		Definition: task.Definition, Have: have, Epoch: b.status.epoch(), Guard: task.Guard,
		Received: b.shared.metrics.receiver(ctx, false), Enter: b.enter,
	}, ids)
	return err
}

// filled returns what the mirror holds. The error is a *mirror.NotReadyError if there is none.
func (b *blobFetcher) filled() (mirror.Content, error) {
	have := b.status.holding.read().content
	if !have.Exists() {
		return have, &mirror.NotReadyError{Repository: b.status.name, Problem: b.status.fetching.read().problem}
	}
	return have, nil
}

// enter is the one of [mirror.FetchParams]. Added content is shown before the next writer begins.
func (b *blobFetcher) enter(ctx context.Context) (have mirror.Content, leave func(mirror.Content), err error) {
	unlock, err := b.local.lock(ctx)
	if err != nil {
		return mirror.Content{}, nil, err
	}
	if have, err = b.filled(); err != nil {
		unlock()
		return mirror.Content{}, nil, err
	}
	return have, func(filled mirror.Content) {
		defer unlock()
		if filled.Filled() != have.Filled() {
			b.status.holding.amend(func(c *mirror.Content) {
				c.FilledAt, c.DiskBytes, c.Packs = filled.FilledAt, filled.DiskBytes, filled.Packs
			})
			b.inbox.announce()
		}
	}, nil
}

// pin makes this replica's mirror know the targets of refs, see [Repository.Pin].
func (b *blobFetcher) pin(ctx context.Context, names []string) error {
	owner, err := b.owners.find(ctx)
	switch {
	case err == nil && owner == b.shared.Self:
		return b.look(ctx, names)
	case err == nil && owner != "":
		if err := b.shared.Replicas.Pin(ctx, owner, b.status.definition(), names); err != nil {
			b.owners.forget()
			return err
		}
		return b.follower.copier.catchUp(ctx, owner)
	default:
		return b.fetchFromOthers(ctx)
	}
}

// look asks the upstream what refs lead to.
func (b *blobFetcher) look(ctx context.Context, names []string) error {
	return b.ask(ctx, func(ctx context.Context, task mirror.OwnerTask) error { return b.pinMirror(ctx, task, names) })
}

func (b *blobFetcher) pinMirror(ctx context.Context, task mirror.OwnerTask, names []string) error {
	unlock, err := b.local.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := b.filled()
	if err != nil {
		return err
	}
	names = have.Unpinned(names)
	if len(names) == 0 { // another call was faster, or the refs are gone
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.shared.Settings.FetchTimeout)
	defer cancel()
	pinned, err := b.shared.Backend.Pin(ctx, mirror.FetchParams{
		Definition: task.Definition, Have: have, Epoch: b.status.epoch(), Guard: task.Guard,
		Received: b.shared.metrics.receiver(ctx, false),
	}, names)
	if err != nil {
		return err
	}
	b.status.holding.replace(pinned)
	b.inbox.announce()
	return nil
}

// forgetFailure has the upstream asked again at once.
func (b *blobFetcher) forgetFailure() { b.failure.Store(nil) }
