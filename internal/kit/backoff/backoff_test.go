// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/kit/backoff"
)

var errDown = errors.New("down")

func TestDelayStaysWithinGrowingBound(t *testing.T) {
	t.Parallel()
	p := backoff.Policy{Initial: time.Second, Max: 10 * time.Second, Multiplier: 3}
	bounds := map[int]time.Duration{-1: time.Second, 0: time.Second, 1: 3 * time.Second, 2: 9 * time.Second, 3: 10 * time.Second, math.MaxInt: 10 * time.Second}
	for attempt, bound := range bounds {
		var low, high bool
		for range 400 {
			d := p.Delay(attempt)
			if d < 0 || d > bound {
				t.Fatalf("delay after attempt %d: got %s, want at most %s", attempt, d, bound)
			}
			low, high = low || d < bound/4, high || d > bound*3/4
		}
		if !low || !high { // fails by chance once in 10^49
			t.Errorf("delays after attempt %d do not spread over 0…%s", attempt, bound)
		}
	}
}

func TestZeroPolicyIsDefault(t *testing.T) {
	t.Parallel()
	for attempt, bound := range map[int]time.Duration{0: 200 * time.Millisecond, 1: 400 * time.Millisecond, 50: 30 * time.Second} {
		for range 100 {
			if d := (backoff.Policy{}).Delay(attempt); d > bound {
				t.Fatalf("delay of the zero policy after attempt %d: got %s, want at most %s", attempt, d, bound)
			}
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d         time.Duration
		fraction  float64
		low, high time.Duration
	}{
		{2 * time.Minute, 0.25, 90 * time.Second, 150 * time.Second},
		{time.Second, 0, time.Second, time.Second},
		{time.Second, -1, time.Second, time.Second},
		{time.Second, 7, 0, 2 * time.Second},
		{0, 0.25, 0, 0},
		{-time.Second, 0.25, -time.Second, -time.Second},
	} {
		for range 200 {
			if got := backoff.Jitter(test.d, test.fraction); got < test.low || got > test.high {
				t.Fatalf("jitter of %s by %g: got %s, want %s…%s", test.d, test.fraction, got, test.low, test.high)
			}
		}
	}
}

func TestRetryUntilSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		err := backoff.Retry(t.Context(), backoff.Default(), func(context.Context) error {
			if calls++; calls < 5 {
				return errDown
			}
			return nil
		})
		if err != nil || calls != 5 {
			t.Errorf("retry: got %v after %d calls, want success at the fifth", err, calls)
		}
		if waited := time.Since(start); waited > 3*time.Second {
			t.Errorf("retry waited %s, want at most 0.2+0.4+0.8+1.6 s", waited)
		}
	})
}

func TestRetryStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := backoff.Retry(t.Context(), backoff.Default(), func(context.Context) error {
			calls++
			return fmt.Errorf("call: %w", backoff.Permanent(errDown))
		})
		if err != errDown || calls != 1 { //nolint:errorlint // the wrapper must be gone
			t.Errorf("permanent error: got %v after %d calls, want it bare after 1", err, calls)
		}

		calls = 0
		err = backoff.Retry(t.Context(), backoff.Policy{MaxAttempts: 3}, func(context.Context) error {
			calls++
			return errDown
		})
		if !errors.Is(err, errDown) || calls != 3 {
			t.Errorf("limited attempts: got %v after %d calls, want the last error after 3", err, calls)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err = backoff.Retry(ctx, backoff.Default(), func(context.Context) error { return errDown })
		if !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("timeout: got %v after %s, want both errors after 1 m", err, time.Since(start))
		}
	})
}

func TestRetryObeysHint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		err := backoff.Retry(t.Context(), backoff.Policy{Max: time.Second}, func(context.Context) error {
			if calls++; calls == 1 {
				return fmt.Errorf("call: %w", backoff.RetryAfter(errDown, 2*time.Minute))
			}
			return nil
		})
		waited := time.Since(start)
		if err != nil || waited < 2*time.Minute || waited > 2*time.Minute+30*time.Second {
			t.Errorf("hint of 2 m: got %v after %s, want success within 2 m and a quarter more", err, waited)
		}
	})
}

func TestMarksKeepTheError(t *testing.T) {
	t.Parallel()
	if backoff.Permanent(nil) != nil || backoff.RetryAfter(nil, time.Second) != nil {
		t.Error("marks of nil: want nil")
	}
	for _, err := range []error{backoff.Permanent(errDown), backoff.RetryAfter(errDown, time.Second)} {
		if !errors.Is(err, errDown) || err.Error() != errDown.Error() {
			t.Errorf("marked error: got %v, want %v inside and as text", err, errDown)
		}
	}
	if d, ok := backoff.Hint(backoff.RetryAfter(errDown, time.Second)); !ok || d != time.Second {
		t.Errorf("hint: got %s, %t, want 1s", d, ok)
	}
	if _, ok := backoff.Hint(errDown); ok {
		t.Error("hint of a plain error: want none")
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := backoff.Wait(t.Context(), time.Hour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("wait: got %v after %s, want nil after 1h", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errDown)
		for _, d := range []time.Duration{-1, 0, time.Hour} {
			if err := backoff.Wait(ctx, d); !errors.Is(err, errDown) {
				t.Errorf("wait %s with a done context: got %v, want its cause", d, err)
			}
		}
	})
}
