// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/lease"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// outcome is what a fetch changed.
type outcome struct {
	changed []string
	all     bool          // more names than an event carries
	reason  mirror.Reason // why it failed; empty when it did not
	turned  bool          // the fetch before it came out otherwise: well, or for another reason
}

// beginFetch takes what a fetch needs, and puts the fetch into the trace of who asked for it. Refreshes that were asked for
// until now are answered by this fetch.
func (r *Repository) beginFetch(ctx context.Context, held *lease.Held) (context.Context, mirror.FetchParams, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began++
	if r.cause.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, r.cause)
	}
	r.refreshAt, r.cause = time.Time{}, trace.SpanContext{}
	timeout := r.shared.Settings.FetchTimeout
	if !r.content.Exists() || r.content.Partial != r.def.PartialClone {
		timeout = r.shared.Settings.CloneTimeout
	}
	before, judge := r.content, r.judge
	return ctx, mirror.FetchParams{
		Definition: r.def, Have: before, Epoch: held.Epoch(), Guard: held.Check,
		Admit: func(ctx context.Context, fetched content.Reader, c mirror.Content) (mirror.Content, error) {
			return judge.Admit(ctx, fetched, before, c)
		},
	}, timeout
}

// abandonFetch ends a fetch whose result does not count.
func (r *Repository) abandonFetch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = r.began
	r.signalLocked()
}

// finishFetch takes over the result of a fetch and says when the next one is due.
func (r *Repository) finishFetch(p mirror.FetchParams, fetched mirror.Content, err error) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.signalLocked()
	now := time.Now()
	r.finished = r.began
	r.fetches++
	var o outcome
	before := r.problem
	if err != nil {
		r.failures++
		r.problem = mirror.ProblemOf(err, r.problem, now)
		r.next, r.notBefore = now.Add(r.failureDelay()), now.Add(retryAfter(err))
		o.reason = r.problem.Reason
	} else {
		o.changed = r.content.Changed(fetched)
		o.all = len(o.changed) > mirror.MaxChangedRefs || !r.content.Exists()
		r.announced = r.announced || fetched.Partial != r.content.Partial
		r.setContentLocked(fetched)
		r.failures, r.problem = 0, nil
		r.next, r.notBefore = now.Add(backoff.Jitter(r.interval(), pollSpread)), time.Time{}
	}
	o.turned = (before == nil) != (r.problem == nil) || before != nil && before.Reason != o.reason
	if r.def != p.Definition { // replaced while fetching: what update scheduled still holds
		r.next, r.notBefore = now, time.Time{}
	}
	return o
}

// interval is the mean time between polls.
func (r *Repository) interval() time.Duration {
	if r.def.PollInterval > 0 {
		return r.def.PollInterval
	}
	return r.shared.Settings.PollInterval
}

// failureDelay is the jittered time to the next try; it never exceeds the poll interval.
func (r *Repository) failureDelay() time.Duration {
	longest := min(r.interval(), failureMax)
	policy := backoff.Policy{Initial: min(failureInitial, longest), Max: longest}
	return max(policy.Delay(r.failures-1), min(failureFloor, longest))
}

// maxRetryAfter bounds what an upstream can ask for.
const maxRetryAfter = time.Hour

func retryAfter(err error) time.Duration {
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || upstream.RetryAfter <= 0 {
		return 0
	}
	wait := min(upstream.RetryAfter, maxRetryAfter)
	return wait + backoff.Jitter(wait/8, 1)
}

// fetchOnce fetches within a time limit of its own.
func (s *shared) fetchOnce(ctx context.Context, p mirror.FetchParams, timeout time.Duration) (mirror.Content, error) {
	if err := p.Guard(); err != nil {
		return mirror.Content{}, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	content, err := s.Backend.Fetch(limited, p)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return mirror.Content{}, &mirror.UpstreamError{
			Reason:  mirror.ReasonUnreachable,
			Message: fmt.Sprintf("The upstream did not finish within %s; Leat retries by itself.", timeout),
			Cause:   err,
		}
	}
	return content, err
}
