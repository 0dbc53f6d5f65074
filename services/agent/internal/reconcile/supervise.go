// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

const (
	// gracePeriod is how long a run may continue after its context has ended. A run that still
	// works then is assumed to be stuck.
	gracePeriod = 2 * time.Minute
	// superviseInterval is how often runs are checked for that.
	superviseInterval = 30 * time.Second
	// confirmInterval is how often the inventories are searched for marks while the guard keeps
	// services.
	confirmInterval = 30 * time.Second
)

// supervise returns an error if a run does not end after its time is over, and nil when ctx is
// done. Only the end of the process releases the resources of such a run. The next process
// continues where this one was.
func (s *shared) supervise(ctx context.Context) error {
	ticker := time.NewTicker(superviseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			service, since := s.slots.Oldest()
			if since.IsZero() || now.Sub(since) < s.settings.ApplyTimeout+gracePeriod {
				continue
			}
			s.logger.ErrorContext(ctx, "run does not end", slog.String("leat.service", service), slog.Time("since", since),
				slog.String("goroutines", goroutines()))
			return fmt.Errorf("the run of service %s does not end, since %v", service, since.Format(time.RFC3339))
		}
	}
}

// goroutines returns the stacks of all goroutines of this process.
func goroutines() string {
	const maxBytes = 256 << 10
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a Buffer never fails
	return string(text.Bytes()[:min(text.Len(), maxBytes)])
}

// configure applies the hub's settings for the agent itself.
func (e *Engine) configure(s syncpolicy.AgentSettings) {
	settings := e.shared.settings
	refresh := cmp.Or(max(s.RefreshInterval, 0), settings.Refresh)
	e.shared.slots.Resize(cmp.Or(max(s.Workers, 0), settings.Workers))
	e.shared.executor.Configure(s)
	if e.shared.refresh.Swap(int64(refresh)) == int64(refresh) {
		return
	}
	for _, u := range e.all() {
		u.hasten(e.shared.nextRefresh(time.Now()))
	}
}

// retryHeld has the prunes that waited for a person's agreement tried again.
func (e *Engine) retryHeld() {
	for _, u := range e.all() {
		u.tryAgain((*decide.State).RetryHeld)
	}
}

// settleFacts is how long the engine waits after a change of the served kinds before it reads them:
// definitions come in groups.
const settleFacts = 15 * time.Second

// watchFacts triggers a check of the services whose templates read facts when the API server's
// facts have changed. Many notices are of no change that templates could see; while no template
// reads facts, the API server is not asked.
func (e *Engine) watchFacts(ctx context.Context) {
	var last render.ClusterFacts
	for changed := e.facts.FactsChanged(); ; {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if wake.Await(ctx, nil, settleFacts) != nil {
			return
		}
		changed = e.facts.FactsChanged() // before the look, so that no change is lost
		if len(e.asking()) == 0 {
			continue
		}
		now, err := e.facts.Cluster.ClusterFacts(ctx)
		isSame := now.KubernetesVersion == last.KubernetesVersion && slices.Equal(now.APIVersions, last.APIVersions)
		if err == nil && isSame {
			continue
		}
		if err == nil {
			last = now
		}
		e.hastenAsking() // after an error, so that the services report it, and try again
	}
}

// hastenAsking triggers a check of the services whose templates read facts.
func (e *Engine) hastenAsking() {
	for _, u := range e.asking() {
		u.hasten(time.Now())
	}
}

// asking returns the services whose templates read facts.
func (e *Engine) asking() []*unit {
	return slices.DeleteFunc(e.all(), func(u *unit) bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return !u.record.AsksFacts
	})
}

// confirm releases services whose inventory a person has marked.
func (e *Engine) confirm(ctx context.Context) {
	held := map[string]*unit{}
	for _, u := range e.all() {
		if u.order() == decide.Hold {
			held[u.name] = u
		}
	}
	if len(held) == 0 {
		return
	}
	records, err := e.shared.inventories.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.shared.logger.WarnContext(ctx, "inventories cannot be read, retrying", slog.Any("error", err))
		}
		return
	}
	for _, record := range records {
		if u := held[record.Service]; u != nil && record.Confirmed {
			e.shared.logger.InfoContext(ctx, "removal confirmed", slog.String("leat.service", u.name))
			u.request()
		}
	}
}
