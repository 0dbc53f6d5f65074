// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// enter waits for a conversation with the upstream's host, and counts the repository among those that wait.
func (s *shared) enter(ctx context.Context, def mirror.Definition) (leave func(), err error) {
	defer s.metrics.wait(queueHost)()
	return s.Backend.Enter(ctx, def)
}

// quietSpread keeps the repositories of a host from coming back all at once.
const quietSpread = 0.1

// postpone moves the next fetch behind the time that the host asked for.
func (t *tenure) postpone(quiet *mirror.QuietError) {
	t.repo.postpone(quiet)
	t.noteHealth(mirror.Event{Time: time.Now()})
}

func (r *Repository) postpone(quiet *mirror.QuietError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	wait := max(min(quiet.Until.Sub(now), maxRetryAfter), failureFloor)
	r.refreshAt = time.Time{}
	r.notBefore = now.Add(wait + backoff.Jitter(time.Duration(quietSpread*float64(wait)), 1))
	if r.failures == 0 { // a failure of its own says more
		r.problem = mirror.ProblemOf(&mirror.UpstreamError{
			Reason:  mirror.ReasonRateLimited,
			Message: quiet.Host + " asks to slow down; Leat leaves all its repositories alone for that long, and goes on by itself.",
		}, r.problem, now)
	}
	r.signalLocked()
}
