// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// gate is closed until a given time.
type gate struct {
	open chan struct{} // nil: it does not hold callers up

	mu     sync.Mutex
	until  time.Time
	inside int
}

func (g *gate) Enter(context.Context, mirror.Definition) (func(), error) {
	if g.open != nil {
		<-g.open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.until.After(time.Now()) {
		return nil, &mirror.QuietError{Host: "git.example", Until: g.until}
	}
	g.inside++
	return func() { g.mu.Lock(); defer g.mu.Unlock(); g.inside-- }, nil
}

// TestQuietHost postpones fetches without calling them failures.
func TestQuietHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.gate = &gate{until: time.Now().Add(20 * time.Minute)}
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		state := get(t, set, "demo").State()
		if w.upstream.count() != 0 || state.Failures != 0 || state.Problem == nil || state.Problem.Reason != reason.UpstreamRateLimited {
			t.Errorf("got %d fetches and %+v, want none, no failure, and the reason", w.upstream.count(), state)
		}
		if wait := time.Until(state.NextPollAt); wait < 20*time.Minute || wait > 25*time.Minute {
			t.Errorf("got the next poll in %s, want it shortly after 20 min", wait)
		}
		if got, err := get(t, set, "demo").Refresh(t.Context(), true); err != nil || got.Problem == nil {
			t.Errorf("got %+v, %v from a refresh, want the state at once", got, err)
		}
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		if state := get(t, set, "demo").State(); state.Phase != mirror.PhaseReady || state.Problem != nil {
			t.Errorf("got %+v, want ready again", state)
		}
		if w.gate.inside != 0 {
			t.Errorf("got %d inside the gate, want nobody", w.gate.inside)
		}
	})
}

// TestHostGoesQuietDuringAFetch is the refusal of a sibling's request while this repository's fetch
// is under way.
func TestHostGoesQuietDuringAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		synctest.Wait()
		w.upstream.set(nil, fmt.Errorf("fetch: %w", &mirror.QuietError{Host: "git.example", Until: time.Now().Add(time.Hour)}))
		state, err := get(t, set, "demo").Refresh(t.Context(), true)
		if err != nil || state.Failures != 0 || state.Phase != mirror.PhaseReady || state.Problem == nil {
			t.Errorf("got %+v, %v, want a reason and no failure", state, err)
		}
	})
}
