// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/backoff"
)

// Gate spreads what goes to one host over time, whatever number of repositories it has. Its methods may be called
// concurrently.
type Gate interface {
	// Enter waits, fairly, until the definition's host may have one more conversation, and returns what ends it. Errors
	// are the context's, or a *QuietError while the host wants to be left alone.
	Enter(ctx context.Context, def Definition) (leave func(), err error)
}

// QuietError tells that a host asked to be left alone, of whichever repository it was asked. It is no failure of the
// repository: nothing was sent.
type QuietError struct {
	Host  string
	Until time.Time
}

// Error implements error.
func (e *QuietError) Error() string {
	return fmt.Sprintf("%s asks to be left alone until %s", e.Host, e.Until.UTC().Format(time.RFC3339))
}

// enter waits for a conversation with the upstream's host, and counts the repository among those that wait.
func (s *shared) enter(ctx context.Context, def Definition) (leave func(), err error) {
	defer s.metrics.wait(queueHost)()
	return s.Backend.Enter(ctx, def)
}

// quietSpread keeps the repositories of a host from coming back all at once.
const quietSpread = 0.1

// postpone moves the next fetch behind the time that the host asked for.
func (t *tenure) postpone(quiet *QuietError) {
	t.repo.postpone(quiet)
	t.noteHealth(Event{Time: time.Now()})
}

func (r *Repository) postpone(quiet *QuietError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	wait := max(min(quiet.Until.Sub(now), maxRetryAfter), failureFloor)
	r.refreshAt = time.Time{}
	r.notBefore = now.Add(wait + backoff.Jitter(time.Duration(quietSpread*float64(wait)), 1))
	if r.failures == 0 { // a failure of its own says more
		r.problem = problemOf(&UpstreamError{
			Reason:  ReasonRateLimited,
			Message: quiet.Host + " asks to slow down; Leat leaves all its repositories alone for that long, and goes on by itself.",
		}, r.problem, now)
	}
	r.signalLocked()
}
