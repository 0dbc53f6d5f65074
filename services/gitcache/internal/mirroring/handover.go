// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	// reservation is how long only the successor can take a lease that was handed over; then any
	// replica may.
	reservation = 5 * time.Second
	// offerTimeout is how long a hand-over waits for a running fetch to end.
	offerTimeout = 30 * time.Second
)

var (
	errColdSuccessor = errors.New("the successor's mirror does not hold the same refs")
	errUnpublished   = errors.New("an event has not reached the log yet")
)

// handover moves a repository from this replica, which owns it, to the one that should.
//
// The mover finds out that the successor holds what this replica does, and makes an offer. The
// tenure takes the offer between two fetches, compares once more, and ends; the lease is reserved
// for the successor, which is notified. So a repository changes hands without a clone, and without
// a pause longer than a call.
type handover struct {
	shared *shared
	status *status
	inbox  *inbox
}

// run hands the repository over, if another replica should own it and can, and returns when that is
// done or has failed.
func (h *handover) run(ctx context.Context) {
	if h.status.epoch() == 0 || !h.status.holding.read().content.Exists() {
		return
	}
	successor := h.shared.view().BetterOwner(h.status.placementKey)
	if successor == "" {
		return
	}
	logger := h.shared.logger(h.status).With(slog.String("successor", successor))
	if err := h.compare(ctx, successor); err != nil {
		logger.DebugContext(ctx, "repository stays for now", slog.Any("error", err))
		return
	}
	o := &offer{successor: successor, done: make(chan error, 1)}
	h.inbox.setOffer(o)
	defer h.inbox.setOffer(nil)
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

// compare returns nil if another replica's mirror holds what this one's does.
func (h *handover) compare(ctx context.Context, replica string) error {
	mine := h.status.holding.read().content.Fingerprint()
	theirs, err := h.shared.inspect(ctx, replica, h.status.definition(), mine)
	if err == nil && (mine == "" || theirs.Fingerprint != mine) {
		err = errColdSuccessor
	}
	return err
}
