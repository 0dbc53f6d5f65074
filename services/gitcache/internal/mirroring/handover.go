// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/internal/rendezvous"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// reservation is how long nobody but the heir can take a lease that was handed over; then anybody may.
	reservation = 5 * time.Second
	// inspectTimeout bounds the question what another replica's mirror holds.
	inspectTimeout = 3 * time.Second
	// offerTimeout is how long a hand-over waits for a running fetch to end.
	offerTimeout = 30 * time.Second
	// noticeTimeout bounds how long the heir is given to say that it has taken over.
	noticeTimeout = 2 * time.Second
	maxNotices    = 16
	rebalanceSpan = 0.25
)

var (
	errColdHeir  = errors.New("the heir's mirror does not hold the same refs")
	errUnsettled = errors.New("an event has not reached the log yet")
)

// offer asks the owner, on its own replica, to hand a repository over.
type offer struct {
	heir string
	done chan error // takes one answer
}

// handedOver is how a tenure ends that gave its repository away.
type handedOver struct{ offer *offer }

// Error implements error.
func (h *handedOver) Error() string { return "handed over to " + h.offer.heir }

// rebalance moves what others should own to them, one repository at a time, until ctx is done.
func (s *Set) rebalance(ctx context.Context) {
	for backoff.Wait(ctx, backoff.Jitter(s.shared.Settings.Rebalance, rebalanceSpan)) == nil {
		for _, r := range s.List() {
			r.reconsider()
			if heir := r.heir(); heir != "" && ctx.Err() == nil {
				r.move(ctx, heir)
			}
		}
	}
}

// heir returns who should own the repository instead of this replica, which does; "" if nobody should.
func (r *Repository) heir() string {
	if _, err := r.Mirrored(); err != nil || r.Epoch() == 0 {
		return ""
	}
	members := r.shared.Peers.Members()
	if !slices.Contains(members, r.shared.Self) { // what is known of the others may be as old
		return ""
	}
	if first := rendezvous.Order(r.kin, members)[0]; first != r.shared.Self {
		return first
	}
	return ""
}

// move hands the repository over to an heir that is warm, and waits for the outcome.
func (r *Repository) move(ctx context.Context, heir string) {
	logger := r.shared.Logger.With(slog.String("leat.repository", r.name), slog.String("heir", heir))
	if err := r.warm(ctx, heir); err != nil {
		logger.DebugContext(ctx, "repository stays for now", slog.Any("error", err))
		return
	}
	o := &offer{heir: heir, done: make(chan error, 1)}
	r.setOffer(o)
	defer r.setOffer(nil)
	waiting, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	select {
	case <-waiting.Done():
	case err := <-o.done:
		if err != nil {
			logger.InfoContext(ctx, "repository not handed over", slog.Any("error", err))
			return
		}
		logger.InfoContext(ctx, "repository handed over")
	}
}

// warm makes sure that another replica's mirror holds what this one's does.
func (r *Repository) warm(ctx context.Context, replica string) error {
	content, err := r.Mirrored()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	mine := content.Fingerprint()
	theirs, err := r.shared.Replicas.Inspect(asking, replica, r.Definition(), mine)
	if err != nil {
		return fmt.Errorf("inspect heir: %w", err)
	}
	if theirs.Fingerprint != mine {
		return errColdHeir
	}
	return nil
}

func (r *Repository) setOffer(o *offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offer = o
	if o != nil {
		r.signalLocked()
	}
}

func (r *Repository) takeOffer() *offer {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.offer
	r.offer = nil
	return o
}

// handOver ends the tenure in favour of whom the repository was offered to. No fetch is running, none begins any more, and
// the heir is asked once more: what it holds now is all that there is.
func (t *tenure) handOver(ctx context.Context) error {
	o := t.repo.takeOffer()
	if o == nil || !t.settled(ctx, o) {
		return nil
	}
	t.held.Bequeath(o.heir, reservation)
	return &handedOver{offer: o}
}

// settled tells whether the repository can be handed over now, and the one who offered it when it cannot.
func (t *tenure) settled(ctx context.Context, o *offer) bool {
	err := t.repo.warm(ctx, o.heir)
	if t.pending != nil {
		err = errUnsettled
	}
	if err != nil {
		o.done <- err
	}
	return err == nil
}

// notify tells the heir that the lease is free for it, and the mover whether it took it.
func (r *Repository) notify(ctx context.Context, left *handedOver) {
	left.offer.done <- r.summon(ctx, left.offer.heir)
}

func (r *Repository) summon(ctx context.Context, heir string) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	if err := r.shared.notices.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer r.shared.notices.Release(1)
	defer r.ForgetOwner()
	return r.shared.Replicas.TakeOver(ctx, heir, r.Definition())
}

// bequeath leaves the repository to the next replica in rendezvous order: this one is shutting down.
func (r *Repository) bequeath(held *lease.Held) {
	if others := r.Others(); len(others) > 0 {
		r.successor = others[0]
		held.Bequeath(r.successor, reservation)
	}
}

// executeWill tells the successor of a repository that was owned until the shutdown. The lease is released already.
func (r *Repository) executeWill(ctx context.Context) {
	if r.successor == "" {
		return
	}
	if err := r.summon(context.WithoutCancel(ctx), r.successor); err != nil {
		r.shared.Logger.DebugContext(ctx, "successor not told", slog.String("leat.repository", r.name), slog.Any("error", err))
	}
}

// TakeOver takes a lease that was given up in this replica's favour, and returns the new epoch. ErrNotOwner: it did not
// come to that within some seconds.
func (r *Repository) TakeOver(ctx context.Context) (uint64, error) {
	waiting, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	r.invited.Store(true)
	r.summoned.Store(true)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.epoch == 0 {
		if err := r.awaitChangeLocked(waiting); err != nil {
			return 0, fmt.Errorf("take %q over: %w", r.name, mirror.ErrNotOwner)
		}
	}
	return r.epoch, nil
}
