// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// TestErrandsEndWithTheTenure runs errands where the repository is owned, and nowhere else: the
// lease passes on only when the errand of the owner before has ended.
func TestErrandsEndWithTheTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		setA, stopA := w.replica(t, "a", nil, definition("demo"))
		time.Sleep(time.Minute)
		setB, stopB := w.replica(t, "b", nil, definition("demo"))
		defer func() { stopB() }()
		a, b := get(t, setA, "demo"), get(t, setB, "demo")
		if a.Epoch() == 0 { // handed over already
			a, b = b, a
			stopA, stopB = stopB, stopA
		}
		if err := b.AsOwner(t.Context(), func(context.Context, mirror.OwnerTask) error { return nil }); !errors.Is(err, mirror.ErrNotOwner) {
			t.Errorf("got %v where the repository is not owned, want ErrNotOwner", err)
		}
		running, ended := make(chan struct{}), make(chan error, 1)
		slow := errors.New("slow to end")
		go func() {
			ended <- a.AsOwner(t.Context(), func(ctx context.Context, e mirror.OwnerTask) error {
				close(running)
				<-ctx.Done()
				time.Sleep(time.Second)
				if b.Epoch() != 0 {
					t.Error("got a new owner while the errand of the one before was running")
				}
				return slow
			})
		}()
		<-running
		stopA()
		if err := <-ended; !errors.Is(err, mirror.ErrNotOwner) || !errors.Is(err, slow) {
			t.Errorf("got %v from an errand that was cut off, want ErrNotOwner and its own error", err)
		}
		time.Sleep(time.Minute)
		if err := b.AsOwner(t.Context(), func(_ context.Context, e mirror.OwnerTask) error { return e.Guard() }); err != nil {
			t.Errorf("got %v from the new owner, want nil", err)
		}
		if err := a.AsOwner(t.Context(), func(context.Context, mirror.OwnerTask) error { return nil }); !errors.Is(err, mirror.ErrNotOwner) {
			t.Errorf("got %v from the owner before, want ErrNotOwner", err)
		}
	})
}

// TestAnnouncementReachesTheLog publishes an event without changes, which followers hear.
func TestAnnouncementReachesTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.upstream.set(map[string]string{"refs/heads/main": "c1"}, nil)
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		time.Sleep(time.Second)
		before := len(w.events.all())
		get(t, set, "demo").Announce()
		synctest.Wait()
		after := w.events.all()
		if len(after) != before+1 || after[before].All || len(after[before].Changed) > 0 {
			t.Errorf("got events %v after the first %d, want one without changes", after, before)
		}
	})
}

// TestAnnouncementDuringAFetch announces while the owner is busy: it is told as soon as the fetch
// is over, not at the next poll.
func TestAnnouncementDuringAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		w.upstream.takes = 3 * time.Second
		r := get(t, set, "demo")
		if _, err := r.Refresh(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the debounce, and a part of the fetch
		before := len(w.events.all())
		r.Announce()
		time.Sleep(3 * time.Second)
		if after := len(w.events.all()); after != before+1 {
			t.Errorf("got %d events after an announcement during a fetch, want one", after-before)
		}
	})
}
