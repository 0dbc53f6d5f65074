// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Repository is one mirrored upstream on one replica: owner of its lease or not. All exported
// methods may be called concurrently and answer from memory unless their comments differ.
type Repository struct {
	shared    *shared
	status    *status
	owners    *ownerLookup
	local     *localMirror
	follower  *follower
	verifying *verification
	inbox     *inbox
	tasks     *ownerTasks
	blobs     *blobFetcher
	handover  *handover
	candidate *candidate
}

func newRepository(def mirror.Definition, s *shared) *Repository {
	of := newStatus(def, s.interval(def), s.Self)
	owners := &ownerLookup{shared: s, status: of}
	local := &localMirror{shared: s, status: of, writer: semaphore.NewWeighted(1)}
	copier := &copier{shared: s, status: of, local: local}
	follower := &follower{shared: s, status: of, owners: owners, copier: copier}
	inbox := &inbox{changes: of.changes}
	tasks := &ownerTasks{shared: s, status: of}
	moves := &handover{shared: s, status: of, inbox: inbox}
	return &Repository{
		shared: s, status: of, owners: owners, local: local, follower: follower, inbox: inbox, tasks: tasks, handover: moves,
		verifying: &verification{shared: s, status: of, local: local},
		blobs: &blobFetcher{
			shared: s, status: of, owners: owners, local: local, tasks: tasks, inbox: inbox, follower: follower,
			fills: semaphore.NewWeighted(1),
		},
		candidate: &candidate{
			shared: s, status: of, owners: owners, copier: copier, tasks: tasks, wake: wake.NewSignal(),
			tenure: tenure{shared: s, status: of, local: local, copier: copier, inbox: inbox, handover: moves},
		},
	}
}

// run loads the mirror, and then follows the owner, verifies and competes for the lease until ctx
// is done.
func (r *Repository) run(ctx context.Context) {
	r.local.load(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { r.follower.run(ctx) })
	beside.Go(func() { r.verifying.run(ctx) })
	r.candidate.run(ctx)
}

// update replaces the definition: the policy first and the rest second; see status.
func (r *Repository) update(def mirror.Definition) {
	before := r.status.definition()
	if def == before {
		return
	}
	if def.Verification != before.Verification {
		r.status.holding.setPolicy(def.Verification)
	}
	r.blobs.forgetFailure() // the upstream may be another one
	r.status.fetching.change(func(s *fetchState) { s.define(def, r.shared.interval(def), time.Now()) })
}

// Definition returns the definition, credential included.
func (r *Repository) Definition() mirror.Definition { return r.status.definition() }

// Epoch returns the epoch of the lease that this replica holds, or 0 while it does not own the
// repository.
func (r *Repository) Epoch() uint64 { return r.status.epoch() }

// State returns what this replica knows.
func (r *Repository) State() mirror.State { return r.status.read() }

// Content returns what this replica's mirror holds, with what of it is delivered. The error matches
// mirror.ErrNotReady where it holds nothing, and while the repository's policy is being applied to
// it.
func (r *Repository) Content() (mirror.Content, error) {
	now := r.status.holding.read()
	if !now.isDelivered() {
		return mirror.Content{}, r.notReady(now.content.Exists())
	}
	return now.content, nil
}

// Mirrored returns what this replica's mirror holds, verified or not. It is for copying, never for
// delivery. The error matches mirror.ErrNotReady where the mirror holds nothing.
func (r *Repository) Mirrored() (mirror.Content, error) {
	now := r.status.holding.read()
	if !now.content.Exists() {
		return mirror.Content{}, r.notReady(false)
	}
	return now.content, nil
}

func (r *Repository) notReady(hasContent bool) error {
	return &mirror.NotReadyError{Repository: r.status.name, Problem: r.status.fetching.read().problem, Unverified: hasContent}
}

// Verifies reports whether delivered content has to be signed.
func (r *Repository) Verifies() bool {
	verifier, _, _ := r.status.holding.policy()
	return verifier.IsRequired()
}

// CheckCommit returns nil if a commit that a caller named by its id, and not by a ref, is
// delivered. The error is a *mirror.RejectedError where it is not, or the reader's.
func (r *Repository) CheckCommit(ctx context.Context, reader content.Reader, id string) error {
	c, err := r.Content()
	if err != nil {
		return err
	}
	verifier, _, _ := r.status.holding.policy()
	return verifier.CheckCommit(ctx, reader, c, id)
}

// AwaitLoaded blocks until the mirror on disk, if any, has been taken over. The error is the
// context's cause.
func (r *Repository) AwaitLoaded(ctx context.Context) error {
	return r.status.changes.Await(ctx, func() bool { return r.status.holding.read().isLoaded })
}

// DiscardContent forgets what this replica's mirror holds, because it turned out to be damaged. The
// owner copies or clones it again at once, a follower copies it.
func (r *Repository) DiscardContent() { r.status.discard() }

// Owner returns the name of the replica that owns the repository: this one's own, another's, or ""
// if it has no owner. It asks the lease store, at most once per half second, and in an outage with
// one question for all repositories every two seconds. An error means that the store does not
// answer.
func (r *Repository) Owner(ctx context.Context) (string, error) { return r.owners.find(ctx) }

// ForgetOwner makes the next Owner ask again: the one that it named did not answer.
func (r *Repository) ForgetOwner() { r.owners.forget() }

// Others returns the names of the other live replicas, those first that are most likely to hold a
// mirror.
func (r *Repository) Others() []string { return r.shared.view().Others(r.status.placementKey) }

// Borrow copies what another replica's mirror holds, the owner's if there is one, whether or not
// this replica should keep a copy. The error is mirror.ErrNoMirror where none holds anything.
func (r *Repository) Borrow(ctx context.Context) error { return r.follower.borrow(ctx) }

// Keeps reports whether this replica owns the repository or follows its owner, so that its mirror
// is as new as the owner's except for the time that a copy takes. Any other mirror here was
// borrowed, and is as old as that.
func (r *Repository) Keeps(ctx context.Context) bool { return r.follower.keeps(ctx) }

// TakeOver takes a lease that was given up in this replica's favour, and returns the new epoch. The
// error matches mirror.ErrNotOwner where it did not come to that within some seconds.
func (r *Repository) TakeOver(ctx context.Context) (uint64, error) { return r.candidate.takeOver(ctx) }

// AsOwner runs what only the owner of the repository may do, and ends its context when the lease is
// lost or given up. The error matches mirror.ErrNotOwner where this replica is not the owner, or
// stopped to be meanwhile. It is a *mirror.QuietError where the upstream's host wants to be left
// alone.
func (r *Repository) AsOwner(ctx context.Context, run func(ctx context.Context, task mirror.OwnerTask) error) error {
	return r.tasks.run(ctx, run)
}

// Announce makes followers query this replica's content, if it is the owner.
func (r *Repository) Announce() { r.inbox.announce() }

// FetchBlobs makes this replica's partial mirror hold blobs: as the owner by asking the upstream,
// else by having the owner do so and copying. The error matches mirror.ErrNotOwner if no replica
// can ask the upstream at the moment. Other errors are *mirror.UpstreamError, *mirror.QuietError,
// the context's, and what other replicas answer.
func (r *Repository) FetchBlobs(ctx context.Context, ids []string) error {
	return r.blobs.fetch(ctx, ids)
}

// Pin makes this replica's mirror know the targets of refs that it knows by name alone: as the
// owner by asking the upstream, else by having the owner do so and copying. It returns the errors
// of FetchBlobs.
func (r *Repository) Pin(ctx context.Context, names []string) error { return r.blobs.pin(ctx, names) }

// LookUp asks the upstream what refs lead to. The error matches mirror.ErrNotOwner where this
// replica is not the owner.
func (r *Repository) LookUp(ctx context.Context, names []string) error {
	return r.blobs.look(ctx, names)
}

// Fill fetches blobs into this replica's partial mirror. The error matches mirror.ErrNotOwner where
// this replica is not the owner. The mirror of a repository that is no longer partial needs no
// blobs, which is not an error.
func (r *Repository) Fill(ctx context.Context, ids []string) error { return r.blobs.fill(ctx, ids) }

// Refresh requests a fetch. It begins at once, or the debounce time after the last one that was
// requested; calls until then share it. With wait it returns after a fetch that began after the call, or with the context's cause. It returns at once,
// without an error, where no fetch will be made: while polling is suspended, or the upstream wants
// to be left alone for longer. The fetch belongs to the trace of the first call that requested it.
// The error matches mirror.ErrNotOwner where this replica does not own the repository, or stopped
// to meanwhile.
func (r *Repository) Refresh(ctx context.Context, wait bool) (mirror.State, error) {
	asked, at := r.status.fetching.request(time.Now(), r.shared.Settings.Debounce, trace.SpanContextFromContext(ctx))
	now := asked
	if wait && asked.epoch != 0 {
		err := r.status.changes.Await(ctx, func() bool {
			now = r.status.fetching.read()
			return now.epoch != asked.epoch || now.finished > asked.begun || !now.schedule.AllowsFetchAt(at)
		})
		if err != nil {
			return mirror.State{}, err
		}
	}
	if now.epoch == 0 || now.epoch != asked.epoch {
		return mirror.State{}, fmt.Errorf("refresh %q: %w", r.status.name, mirror.ErrNotOwner)
	}
	return r.status.read(), nil
}
