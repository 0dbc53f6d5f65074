// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"time"

	"github.com/leatdev/leat/internal/backoff"
	"github.com/leatdev/leat/internal/syncpolicy"
)

const (
	// grace is how long a run may go on after its time is over and it was told to end. What then still works never ends.
	grace = 2 * time.Minute
	// superviseInterval is how often that is looked at.
	superviseInterval = 30 * time.Second
)

// supervise returns an error when a run does not end although its time is over, and nil when ctx is done. Nothing but the end of
// the process frees what such a run holds, and the next process starts where this one was.
func (e *Engine) supervise(ctx context.Context) error {
	ticker := time.NewTicker(superviseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			service, since := e.slots.oldest()
			if since.IsZero() || now.Sub(since) < e.params.Settings.ApplyTimeout+grace {
				continue
			}
			e.params.Logger.ErrorContext(ctx, "run does not end", slog.String("leat.service", service), slog.Time("since", since),
				slog.String("goroutines", goroutines()))
			return fmt.Errorf("the run of service %s does not end, since %v", service, since.Format(time.RFC3339))
		}
	}
}

// goroutines says what everything in this process is doing.
func goroutines() string {
	const enough = 256 << 10
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a Buffer takes everything
	return string(text.Bytes()[:min(text.Len(), enough)])
}

// adjust takes over what the hub says about how to work.
func (e *Engine) adjust(s syncpolicy.AgentSettings) {
	workers, refresh := e.params.Settings.Workers, e.params.Settings.Refresh
	if s.Workers > 0 {
		workers = s.Workers
	}
	if s.RefreshInterval > 0 {
		refresh = s.RefreshInterval
	}
	e.slots.resize(workers)
	e.tenancy.set(s)
	if e.refresh.Swap(int64(refresh)) == int64(refresh) {
		return
	}
	for _, u := range e.all() {
		u.hasten(time.Now().Add(backoff.Jitter(refresh, refreshJitter)))
	}
}

// hasten lets the unit be looked at again at that time, unless it is anyway before.
func (u *unit) hasten(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refresh = earliest(u.refresh, at)
	signal(u.wake)
}

// refreshPause is how long until a service is looked at again.
func (e *Engine) refreshPause() time.Duration {
	return time.Duration(e.refresh.Load())
}
