// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package hostgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/hostgate"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func enter(t *testing.T, g *hostgate.Gate, host string) func() {
	t.Helper()
	leave, err := g.Enter(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func wantQuiet(t *testing.T, err error, want time.Duration) {
	t.Helper()
	quiet, ok := errors.AsType[*mirror.QuietError](err)
	if !ok {
		t.Fatalf("got %v, want a quiet host", err)
	}
	if got := time.Until(quiet.Until); got != want {
		t.Errorf("got quiet for %s, want %s", got, want)
	}
}

func TestSessionsAreBoundedAndFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{Sessions: 2})
		first, second := enter(t, g, "a"), enter(t, g, "a")
		defer enter(t, g, "b")() // another host's bound is its own
		var order []int
		for i := range 3 {
			go func() {
				leave, err := g.Enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				leave()
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Errorf("got %v inside, want nobody beside the two", order)
		}
		first()
		synctest.Wait()
		second()
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("got order %v, want the order of coming", order)
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{Sessions: 1, Requests: 1, Burst: 1})
		leave := enter(t, g, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := g.Enter(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's error", err)
		}
		leave()
		enter(t, g, "a")() // the one that gave up holds no place
		gone := errors.New("lease lost")
		canceled, end := context.WithCancelCause(t.Context())
		end(gone)
		if err := g.Request(canceled, "a"); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause", err)
		}
	})
}

func TestRequestsAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{Requests: 10, Burst: 5})
		start := time.Now()
		for range 25 {
			if err := g.Request(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if got := time.Since(start).Round(time.Millisecond); got != 2*time.Second {
			t.Errorf("got %s for 25 requests, want 2s: five at once, the others at ten per second", got)
		}
	})
}

func TestOneRefusalQuietsAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{Sessions: 1})
		leave := enter(t, g, "a")
		waiting := make(chan error, 1)
		go func() {
			_, err := g.Enter(t.Context(), "a")
			waiting <- err
		}()
		synctest.Wait()
		g.Report("a", http.StatusTooManyRequests, time.Minute)
		g.Report("a", http.StatusTooManyRequests, time.Second) // a later, shorter one takes nothing back
		leave()
		wantQuiet(t, <-waiting, time.Minute)
		_, err := g.Enter(t.Context(), "a")
		wantQuiet(t, err, time.Minute)
		wantQuiet(t, g.Request(t.Context(), "a"), time.Minute)
		enter(t, g, "b")()
		time.Sleep(time.Minute)
		enter(t, g, "a")()
	})
}

func TestWhatQuiets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		after  time.Duration
		want   time.Duration
	}{
		{http.StatusServiceUnavailable, time.Minute, time.Minute},
		{http.StatusForbidden, time.Minute, time.Minute},
		{http.StatusTooManyRequests, 24 * time.Hour, time.Hour},
		{http.StatusServiceUnavailable, 0, 0},
		{http.StatusForbidden, 0, 0},
		{http.StatusOK, time.Minute, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := hostgate.New(hostgate.Config{})
			g.Report("a", test.status, test.after)
			err := g.Request(t.Context(), "a")
			if test.want == 0 {
				if err != nil {
					t.Errorf("%d after %s: got %v, want no quiet", test.status, test.after, err)
				}
				return
			}
			wantQuiet(t, err, test.want)
		})
	}
}

func TestRefusalWithoutATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{})
		for range 20 {
			g.Report("a", http.StatusTooManyRequests, 0)
		}
		quiet, ok := errors.AsType[*mirror.QuietError](g.Request(t.Context(), "a"))
		if !ok || time.Until(quiet.Until) < 10*time.Second || time.Until(quiet.Until) > 15*time.Minute {
			t.Errorf("got %v, want quiet for 10 s to 15 min", quiet)
		}
	})
}

func TestHostsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := hostgate.New(hostgate.Config{})
		g.Report("refused", http.StatusTooManyRequests, time.Hour)
		for i := range 5000 {
			if err := g.Request(t.Context(), fmt.Sprint("host", i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if i == 3000 {
				break
			}
		}
		wantQuiet(t, g.Request(t.Context(), "refused"), time.Hour-3001*time.Second)
	})
}
