// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/gitcache/internal/hooklog"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	// maxUnrecorded bounds the deliveries that wait to be recorded; beyond it they are not.
	maxUnrecorded = 256
	// recordPatience is how long one record may take.
	recordPatience = 5 * time.Second
	// othersRate and othersBurst bound the records about one repository that made nothing fetch: what
	// strangers send costs Redis next to nothing.
	othersRate, othersBurst = 1, 10
)

// Log keeps the newest deliveries about each repository, for all replicas. Its methods may be called
// concurrently.
type Log interface {
	// Record keeps a delivery about the repository of that uid.
	Record(ctx context.Context, uid string, record hooklog.Record) error
}

// note is what is recorded about a delivery.
type note struct {
	// named is the repository in the address. Empty if the address names no repository.
	named string
	// matched are the repositories that are fetched.
	matched []mirror.Definition
	record  hooklog.Record
}

// recorder records deliveries after they were answered, so that the duration of an answer does not
// depend on which repositories there are.
type recorder struct {
	log           Log
	definitions   func() []mirror.Definition
	defaultSecret secret.Text
	logger        *slog.Logger
	waiting       chan note
	others        *limits
}

func newRecorder(p Params) *recorder {
	return &recorder{
		log: p.Log, definitions: p.Repositories, defaultSecret: p.DefaultSecret, logger: p.Logger,
		waiting: make(chan note, maxUnrecorded), others: newLimits(othersRate, othersBurst),
	}
}

// add queues a note, and drops it if too many wait.
func (r *recorder) add(n note) {
	if n.named == "" && len(n.matched) == 0 {
		return // about nothing that people could look at
	}
	select {
	case r.waiting <- n:
	default:
	}
}

// run records what is queued, until ctx is done.
func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-r.waiting:
			r.record(ctx, n)
		}
	}
}

func (r *recorder) record(ctx context.Context, n note) {
	for _, def := range n.matched {
		r.keep(ctx, def, n.record)
	}
	if len(n.matched) > 0 {
		return
	}
	for _, def := range r.definitions() {
		if def.Name != n.named {
			continue
		}
		if r.others.take(def.UID) > 0 {
			return
		}
		if n.record.Outcome == hooklog.WrongKey && def.WebhookSecret == "" && r.defaultSecret == "" {
			n.record.Outcome = hooklog.NoSecret
		}
		r.keep(ctx, def, n.record)
		return
	}
}

func (r *recorder) keep(ctx context.Context, def mirror.Definition, record hooklog.Record) {
	limited, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	if err := r.log.Record(limited, def.UID, record); err != nil {
		r.logger.DebugContext(ctx, "delivery not recorded", slog.String("leat.repository", def.Name), slog.Any("error", err))
	}
}

// recorded returns the outcome as it is recorded. A refusal says in the note which one it is.
func recorded(result outcome) hooklog.Outcome {
	switch result {
	case outcomeAccepted:
		return hooklog.Accepted
	case outcomeUnmatched:
		return hooklog.Unmatched
	case outcomeIgnored:
		return hooklog.Ignored
	case outcomeReplayed:
		return hooklog.Replayed
	case outcomePing:
		return hooklog.Ping
	case outcomeRefused:
		return hooklog.WrongKey
	case outcomeMalformed:
		return hooklog.Malformed
	case outcomeTooLarge:
		return hooklog.TooLarge
	case outcomeLimited:
		return hooklog.Limited
	case outcomeBroken, outcomeUnknown:
	}
	return hooklog.BrokenOff
}
