// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package backoff is the one way Leat waits before it tries again.
//
// Every retry uses full jitter: the wait is uniform between zero and a bound that grows with each
// attempt. A thousand agents that lost the same hub at the same instant therefore spread over the
// whole interval rather than coming back together. Periodic work (polls, refreshes) uses [Jitter]
// for the same reason.
//
// Leat has its own package because it is shorter than the glue to a library would be: the known
// ones spread around the interval instead of over it, carry a hidden overall time limit, and drop
// the cause when a server names its own delay.
package backoff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Policy sets how long to wait between attempts. It is a value: copy it, change a field, share it
// between goroutines. A zero field takes the value it has in [Default].
type Policy struct {
	// Initial is the bound of the wait after the first failure. Zero: 200 ms.
	Initial time.Duration
	// Max is the bound that later waits grow to. Zero: 30 s. A server's own hint (see RetryAfter)
	// may exceed it.
	Max time.Duration
	// Multiplier is how much the bound grows with every further failure; at least 1. Zero: 2.
	Multiplier float64
	// MaxAttempts ends Retry after that many calls. Zero: no limit, so only the context ends it.
	MaxAttempts int
}

// Default returns the policy to use unless there is a reason for another: 200 ms doubling to 30 s,
// without a limit on the number of attempts.
func Default() Policy {
	return Policy{Initial: 200 * time.Millisecond, Max: 30 * time.Second, Multiplier: 2}
}

// Delay returns how long to wait after failure number attempt, counted from 0: a random time,
// uniform between 0 and min(Max, Initial × Multiplier^attempt), both ends included. A negative
// attempt counts as 0. It is safe for concurrent use.
func (p Policy) Delay(attempt int) time.Duration {
	return time.Duration(rand.Int64N(int64(p.bound(attempt)) + 1))
}

func (p Policy) bound(attempt int) time.Duration {
	p = p.withDefaults()
	grown := float64(p.Initial) * math.Pow(p.Multiplier, float64(max(attempt, 0)))
	if grown >= float64(p.Max) { // also where the power overflowed to +Inf
		return p.Max
	}
	return time.Duration(grown)
}

func (p Policy) withDefaults() Policy {
	fallback := Default()
	p.Initial = cmp.Or(max(p.Initial, 0), fallback.Initial)
	p.Max = cmp.Or(max(p.Max, 0), fallback.Max)
	if p.Multiplier < 1 {
		p.Multiplier = fallback.Multiplier
	}
	return p
}

// Jitter returns a random duration, uniform between d×(1-fraction) and d×(1+fraction). Polls use a
// fraction of 0.25, so that clients which started together drift apart. A fraction outside 0..1 is
// brought to the nearer end; a d that is not positive comes back as it is.
func Jitter(d time.Duration, fraction float64) time.Duration {
	if d <= 0 {
		return d
	}
	spread := float64(d) * min(max(fraction, 0), 1)
	return d + time.Duration(spread*(2*rand.Float64()-1))
}

// Wait blocks for d, or until ctx is done; then it returns the context's cause. With d ≤ 0 it
// returns at once.
func Wait(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Retry calls try until it succeeds, and waits between calls by p. It returns
//
//   - nil as soon as try returns nil;
//   - the error inside [Permanent] as soon as try returns one;
//   - the last error of try, when p.MaxAttempts calls have failed;
//   - an error that wraps both the context's cause and the last error of try, when ctx is done first.
//
// An error made with [RetryAfter] makes the next wait at least as long as its argument. Retry hides
// every error but the last; a try that wants its failures seen logs them itself.
func Retry(ctx context.Context, p Policy, try func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if permanent, ok := errors.AsType[*permanentError](err); ok {
			return permanent.cause
		}
		if p.MaxAttempts > 0 && attempt+1 >= p.MaxAttempts {
			return err
		}
		if cause := Wait(ctx, p.After(err, attempt)); cause != nil {
			return fmt.Errorf("give up after attempt %d: %w; last error: %w", attempt+1, cause, err)
		}
	}
}

// After returns how long to wait after failure number attempt, counted from 0, whose error is err:
// the result of [Policy.Delay], or, if err carries a [RetryAfter], that time plus up to a quarter.
func (p Policy) After(err error, attempt int) time.Duration {
	delay := p.Delay(attempt)
	if hint, ok := Hint(err); ok {
		// Every caller got the same hint, so their retries still have to be spread, but never to a
		// time before it.
		return hint + min(delay, hint/4)
	}
	return delay
}

// Permanent marks err as one that no retry can fix: [Retry] returns err at once. Permanent(nil) is
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{cause: err}
}

type permanentError struct{ cause error }

func (e *permanentError) Error() string { return e.cause.Error() }
func (e *permanentError) Unwrap() error { return e.cause }

// RetryAfter marks err as carrying the peer's request not to be called again before d has passed
// (an HTTP Retry-After header, a RetryInfo detail). RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{cause: err, delay: max(d, 0)}
}

// Hint returns the delay that a [RetryAfter] in err's chain carries, and whether there is one.
func Hint(err error) (time.Duration, bool) {
	hinted, ok := errors.AsType[*retryAfterError](err)
	if !ok {
		return 0, false
	}
	return hinted.delay, true
}

type retryAfterError struct {
	cause error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.cause.Error() }
func (e *retryAfterError) Unwrap() error { return e.cause }
