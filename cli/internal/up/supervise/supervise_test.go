// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supervise_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/cli/internal/up/supervise"
)

func TestStopsInReverseOrder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	group := supervise.New()
	var mu sync.Mutex
	var order []string
	for _, name := range []string{"a", "b", "c"} {
		group.Go(ctx, name, "", func(ctx context.Context) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return ctx.Err()
		})
	}
	cancel() // which must not stop all parts at once
	if err := group.Stop(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
	if err := group.Err(); err != nil {
		t.Errorf("Err: got %v, want nil", err)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		run  error
		want string
	}{
		"error":        {broken, "x: broken"},
		"ended itself": {nil, "x: it ended unexpectedly"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := supervise.New()
			group.Go(t.Context(), "y", "", func(ctx context.Context) error { <-ctx.Done(); return nil })
			group.Go(t.Context(), "x", "x.log", func(context.Context) error { return test.run })
			<-group.Failed()
			var failure *supervise.Failure
			if !errors.As(group.Err(), &failure) || failure.Error() != test.want || failure.Log != "x.log" {
				t.Errorf("Err: got %v, want %s with the log x.log", group.Err(), test.want)
			}
			if err := group.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStopGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group := supervise.New()
		release := make(chan struct{})
		group.Go(t.Context(), "stuck", "", func(context.Context) error { <-release; return nil })
		began := time.Now()
		err := group.Stop()
		if err == nil || time.Since(began) < time.Second {
			t.Errorf("Stop: got error %v after %s, want one after some time", err, time.Since(began))
		}
		close(release)
	})
}
