// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// doubtFor is how long answers that are older than the known one are attributed to a mirror that
	// lags behind. Past it they are trusted: then the clock that orders answers has gone back.
	doubtFor = 5 * time.Minute
	// saveTimeout bounds how long an answer waits to be stored before it is put up.
	saveTimeout = 3 * time.Second
)

// errDoubted stands for an answer that is older than the known one.
var errDoubted = &Failure{Reason: reason.OwnerUnavailable, Message: "the mirror that answers is older than what is known"}

// errLagging stands for an answer of a mirror that has not heard yet of what an event told.
var errLagging = &Failure{Reason: reason.OwnerUnavailable, Message: "the mirror that answers is older than an event that told of it"}

// hear remembers how fresh the mirror is that an event tells of. The last event counts, and not the
// latest time: the owner of today may have a clock that is behind the clock of the owner before.
func (l *Loop) hear(event Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if event.Mirror == nil || event.Mirror.FreshAt.IsZero() {
		delete(l.told, event.Repository)
		return
	}
	l.told[event.Repository] = event.Mirror.FreshAt
}

// lags reports whether an answer is older than what the last event of the repository told of. A replica of gitcache
// answers from its own mirror where it cannot reach the owner, and that one may not hold yet what the owner fetched. The
// answer is good, and has to be asked for again: no other event tells of what it lacks.
func (l *Loop) lags(source catalog.Source, answer Answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !answer.FreshAt.IsZero() && answer.FreshAt.Before(l.told[source.Repository])
}

// weigh compares an answer with the known one. A source is resolved at whatever replica of gitcache
// has its repository, and while that changes hands, the next one's mirror may lag behind.
func (l *Loop) weigh(ctx context.Context, source catalog.Source, answer Answer) (Answer, error) {
	known := l.p.Board.Resolution(source)
	older := known.Snapshot != nil && !answer.FreshAt.IsZero() && answer.FreshAt.Before(known.FreshAt) && answer.Snapshot != *known.Snapshot
	l.mu.Lock()
	defer l.mu.Unlock()
	if !older {
		delete(l.doubted, source)
		return answer, nil
	}
	since, ok := l.doubted[source]
	if !ok {
		since = time.Now()
		l.doubted[source] = since
	}
	if time.Since(since) < doubtFor {
		return answer, errDoubted
	}
	delete(l.doubted, source)
	l.p.Logger.WarnContext(ctx, "repository went back to an earlier state, and stays there",
		slog.String("repository", source.Repository), slog.Time("fresh_at", answer.FreshAt), slog.Time("known", known.FreshAt))
	answer.FreshAt = time.Time{} // without a time it counts as the latest
	return answer, nil
}

// putUp shows an answer to agents and stores it: first in the store, where other replicas look
// before they send an agent a plan that may be older than the one it has, and then here. While the
// store does not answer, agents come first.
func (l *Loop) putUp(ctx context.Context, source catalog.Source, next catalog.Resolution, trigger *catalog.Trigger) error {
	if !l.storing.Load() {
		l.p.Board.Resolved(ctx, source, next, trigger)
		return l.save(ctx, source, next)
	}
	err := l.save(ctx, source, next)
	l.p.Board.Resolved(ctx, source, next, trigger)
	return err
}

// learn takes over what another replica stored of a source that cannot be asked for from here.
func (l *Loop) learn(ctx context.Context, source catalog.Source) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	stored, err := l.p.Store.SnapshotsOf(ctx, []catalog.Source{source})
	if err != nil {
		return // it is asked for again
	}
	if resolution, ok := stored[source]; ok {
		l.p.Board.Stored(ctx, source, resolution)
	}
}
