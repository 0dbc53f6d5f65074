// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring/verify"
)

const (
	pollSpread = 0.25
	// failureFloor keeps a failing upstream from being asked in a tight loop, whatever the jitter says.
	failureFloor   = time.Second
	failureInitial = 5 * time.Second
	failureMax     = 5 * time.Minute
	// restWait is the pause after a tenure that ended by itself, as when a newer epoch was seen.
	restWait = time.Second
)

// Repository is one mirrored upstream on one replica: owner of its lease or not. All exported methods may be called
// concurrently and answer from memory unless they say otherwise.
type Repository struct {
	name, uid string
	kin       string // decides which replicas should have it
	shared    *shared

	mu      sync.Mutex
	def     mirror.Definition
	content mirror.Content
	loaded  bool // content is what the disk holds

	judge    *verify.Verifier // of the definition's verification
	contents uint64           // grows with every change of content
	rejected *mirror.Problem  // what judge holds back of content; nil: nothing
	held     []string         // the refs that rejected is about
	verdict  []string         // refs that a new judge changed, and no event has told of

	epoch    uint64 // that of the lease; 0 while this replica does not own the repository
	problem  *mirror.Problem
	failures int
	fetches  int64

	next      time.Time         // when the next poll is due
	refreshAt time.Time         // when a requested fetch is due; zero: none is requested
	cause     trace.SpanContext // that of the first who requested it; may be invalid
	notBefore time.Time         // the upstream asked not to be called earlier
	began     uint64            // fetches begun and finished since the process started
	finished  uint64

	changed chan struct{} // closed and replaced whenever anything above changes

	// successor has been left the lease at the shutdown; only the goroutine that competes for the lease uses it.
	successor string

	errands   errands
	announced bool // followers are to be told to look
	unfilled  fillFailure

	offer *offer // somebody to hand the repository over to; nil: nobody

	disk     *semaphore.Weighted // of one: who writes the mirror, a fetch or a copy
	news     chan struct{}       // holds one token when the owner may have something new
	stopCopy context.CancelFunc  // ends the copy that is being made; nil: none is

	owner    owner
	wake     chan struct{} // holds one token when the lease is worth asking for at once
	invited  atomic.Bool   // another replica has left the lease to this one
	summoned atomic.Bool   // the next request for the lease need not let others go first
}

func newRepository(def mirror.Definition, s *shared) *Repository {
	return &Repository{
		name: def.Name, uid: def.UID, kin: def.PlacementKey(), def: def, judge: verify.New(def.Verification), shared: s, changed: make(chan struct{}), disk: semaphore.NewWeighted(1),
		news: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
}

// Definition returns the definition, credential included.
func (r *Repository) Definition() mirror.Definition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.def
}

// Content returns what this replica's mirror holds, with what of it is delivered. The error matches ErrNotReady where it
// holds nothing, and while the repository's policy is being asked about it.
func (r *Repository) Content() (mirror.Content, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.content.Exists() || !r.judgedLocked() {
		return mirror.Content{}, &mirror.NotReadyError{Repository: r.name, Problem: r.problem, Unjudged: r.content.Exists()}
	}
	return r.content, nil
}

// Epoch returns the epoch of the lease that this replica holds, or 0 while it does not own the repository.
func (r *Repository) Epoch() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// State returns what this replica knows.
func (r *Repository) State() mirror.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateLocked()
}

func (r *Repository) stateLocked() mirror.State {
	s := mirror.State{
		Phase: r.phaseLocked(), Problem: r.problem, FreshAt: r.content.FreshAt, ChangedAt: r.content.ChangedAt,
		DefaultBranch: r.content.DefaultBranch, RefCount: len(r.content.Refs), DiskBytes: r.content.DiskBytes,
		Epoch: r.content.Epoch, Failures: r.failures, Fetches: r.fetches,
	}
	if s.HeldRefs = r.held; s.Problem == nil {
		s.Problem = r.rejected
	}
	if r.epoch != 0 {
		s.Epoch, s.Owner = r.epoch, r.shared.Self
		s.NextPollAt, _ = r.dueLocked()
	}
	return s
}

func (r *Repository) phaseLocked() mirror.Phase {
	switch {
	case r.def.Suspended:
		return mirror.PhaseSuspended
	case r.content.Exists() && r.failures > 0:
		return mirror.PhaseStale
	case r.content.Exists():
		return mirror.PhaseReady
	case r.failures > 0:
		return mirror.PhaseFailed
	default:
		return mirror.PhaseCloning
	}
}

// update replaces the definition. What concerns the upstream is tried at once, and a shorter interval counts from now.
func (r *Repository) update(def mirror.Definition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if def == r.def {
		return
	}
	if !def.SameUpstream(r.def) || (r.def.Suspended && !def.Suspended) {
		r.next, r.notBefore, r.unfilled = time.Now(), time.Time{}, fillFailure{}
	}
	sooner := def.PollInterval != r.def.PollInterval
	if def.Verification != r.def.Verification {
		r.judge = verify.New(def.Verification)
	}
	r.def = def
	// Not while the upstream fails: how long to leave it alone is no matter of the interval.
	if due := time.Now().Add(backoff.Jitter(r.interval(), pollSpread)); sooner && r.failures == 0 && r.next.After(due) {
		r.next = due
	}
	r.signalLocked()
}

// signalLocked wakes everybody who waits for a change.
func (r *Repository) signalLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// run loads the mirror, and then follows the owner and competes for the lease until ctx is done.
func (r *Repository) run(ctx context.Context) {
	r.load(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { r.follow(ctx) })
	following.Go(func() { r.keepJudged(ctx) })
	for ctx.Err() == nil {
		err := lease.Hold(ctx, lease.KeeperParams{
			Store: turn{Store: r.shared.Leases, repo: r}, Key: r.uid, Owner: r.shared.Self,
			TTL: r.shared.Settings.LeaseTTL, RenewEvery: r.shared.Settings.LeaseRenew,
			MinEpoch: r.knownEpoch(), Wake: r.wake, Logger: r.shared.Logger,
		}, r.own)
		if left, ok := errors.AsType[*handedOver](err); ok {
			r.notify(ctx, left)
			continue
		}
		if ctx.Err() != nil {
			r.executeWill(ctx)
			return
		}
		if err != nil {
			r.shared.Logger.WarnContext(ctx, "ownership ended", slog.String("leat.repository", r.name), slog.Any("error", err))
			_ = backoff.Wait(ctx, restWait) // the loop's condition looks at ctx
		}
	}
}

func (r *Repository) knownEpoch() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.content.Epoch
}

// DiscardContent forgets what this replica's mirror holds, because it turned out to be damaged. The owner copies or clones
// it again at once, a follower copies it.
func (r *Repository) DiscardContent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setContentLocked(mirror.Content{Epoch: r.content.Epoch})
	r.next = time.Now()
	r.signalLocked()
	r.hear()
}

// load takes over what the disk holds. A mirror that cannot be read is cloned again; that is no reason not to run.
func (r *Repository) load(ctx context.Context) {
	release, err := r.shared.slot(ctx, false) // a thousand mirrors are not verified at once
	if err != nil {
		return
	}
	defer release()
	content, err := r.shared.Backend.Load(ctx, r.uid)
	if err != nil && !errors.Is(err, mirror.ErrNoMirror) {
		r.shared.Logger.WarnContext(ctx, "mirror not readable", slog.String("leat.repository", r.name), slog.Any("error", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setContentLocked(content)
	r.loaded = true
	r.signalLocked()
}

// own is what the holder of the lease does, until it loses it.
func (r *Repository) own(ctx context.Context, held *lease.Held) error {
	r.becomeOwner(held.Epoch())
	r.shared.metrics.won(ctx, r.invited.Swap(false))
	defer r.resign()
	defer r.errands.admit(ctx, held)()
	t := &tenure{repo: r, held: held}
	err := t.run(ctx)
	r.shared.metrics.left(ctx, held, err)
	if ctx.Err() != nil && held.Check() == nil { // shutting down
		r.bequeath(held)
	}
	return err
}

func (r *Repository) becomeOwner(epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.fetches, r.failures, r.problem = epoch, 0, 0, nil
	r.next = time.Now()
	if r.stopCopy != nil {
		r.stopCopy()
	}
	r.signalLocked()
}

func (r *Repository) resign() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch, r.refreshAt, r.cause = 0, time.Time{}, trace.SpanContext{}
	r.signalLocked()
}

// dueLocked returns when the next fetch has to begin; false: not until something changes.
func (r *Repository) dueLocked() (time.Time, bool) {
	if r.def.Suspended {
		return time.Time{}, false
	}
	due := r.next
	if !r.refreshAt.IsZero() && r.refreshAt.Before(due) {
		due = r.refreshAt
	}
	if due.Before(r.notBefore) {
		due = r.notBefore
	}
	return due, true
}

// awaitDue waits until a fetch is due, or something changed, or the instant latest (zero: none) has come.
func (r *Repository) awaitDue(ctx context.Context, latest time.Time) error {
	r.mu.Lock()
	due, scheduled := r.dueLocked()
	changed := r.changed
	// What came up since the tenure last looked has closed a channel that nobody waits for any more.
	missed := r.announced || len(r.verdict) > 0 || r.offer != nil
	r.mu.Unlock()
	if missed {
		return nil
	}
	if !latest.IsZero() && (!scheduled || latest.Before(due)) {
		due, scheduled = latest, true
	}
	wait := time.Until(due)
	if scheduled && wait <= 0 && ctx.Err() == nil {
		return nil
	}
	var expired <-chan time.Time
	if scheduled {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-expired:
	}
	return nil
}

func (r *Repository) isDue(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	due, scheduled := r.dueLocked()
	return scheduled && !now.Before(due)
}

// Refresh asks for a fetch within the debounce time; calls within that time share one. With wait it returns after a fetch
// that began after the call, or with the context's cause. It returns at once, without an error, where no fetch will be
// made: while polling is suspended, or the upstream asked to be left alone for longer. The fetch belongs to the trace of
// the first call that asked for it. ErrNotOwner: this replica does not
// own the repository, or stopped to meanwhile.
func (r *Repository) Refresh(ctx context.Context, wait bool) (mirror.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch, at := r.epoch, time.Now().Add(r.shared.Settings.Debounce)
	if epoch == 0 {
		return mirror.State{}, fmt.Errorf("refresh %q: %w", r.name, mirror.ErrNotOwner)
	}
	if r.def.Suspended || r.notBefore.After(at) {
		return r.stateLocked(), nil
	}
	if r.refreshAt.IsZero() {
		r.refreshAt, r.cause = at, trace.SpanContextFromContext(ctx)
		r.signalLocked()
	}
	for target := r.began + 1; wait && r.finished < target; {
		if err := r.awaitChangeLocked(ctx); err != nil {
			return mirror.State{}, err
		}
		if r.epoch != epoch {
			return mirror.State{}, fmt.Errorf("refresh %q: %w", r.name, mirror.ErrNotOwner)
		}
		if r.def.Suspended || r.notBefore.After(at) {
			break
		}
	}
	return r.stateLocked(), nil
}

// awaitChangeLocked gives the lock up while it waits for the next change.
func (r *Repository) awaitChangeLocked(ctx context.Context) error {
	changed := r.changed
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
		return nil
	}
}

// AwaitLoaded waits until the mirror on disk, if any, has been taken over.
func (r *Repository) AwaitLoaded(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.loaded {
		if err := r.awaitChangeLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}
