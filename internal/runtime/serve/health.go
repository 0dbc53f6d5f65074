// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/flight"
)

const (
	// checkTimeout is how long one readiness check may take before it counts as failed.
	checkTimeout = 2 * time.Second
	// checkMaxAge keeps callers of /readyz, who need no token, from passing each request on to
	// Redis or SQL.
	checkMaxAge = time.Second
)

// Health knows whether a service is ready for traffic. It is safe for concurrent use.
type Health struct {
	runs *flight.Group[struct{}, map[string]error]

	mu      sync.Mutex
	checks  map[string]func(context.Context) error
	results map[string]error
	checked time.Time
}

// NewHealth returns the health of a service without checks, which is ready.
func NewHealth() *Health {
	return &Health{runs: flight.New[struct{}, map[string]error](0), checks: make(map[string]func(context.Context) error)}
}

// Register adds a readiness check, or replaces the one of that name. It gets two seconds, and runs
// at most once a second, beside the others. A dependency whose loss the service survives by serving
// what it has is not a reason to be unready and has no check.
func (h *Health) Register(name string, check func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[name] = check
	h.results = nil
}

// Ready returns nil when every check passes, otherwise an error that names the failing ones, with
// their causes. A server that is draining is not ready.
func (h *Health) Ready(ctx context.Context) error {
	if isDraining(ctx) {
		return errDraining
	}
	results := h.run(ctx)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if err := results[name]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

var errDraining = errors.New("shutting down")

// run returns the results of all checks, from a second ago at most. One caller's run serves all who
// ask meanwhile. It does not end with ctx: a run is short.
func (h *Health) run(ctx context.Context) map[string]error {
	if results := h.recent(); results != nil {
		return results
	}
	results, _ := h.runs.Do(context.WithoutCancel(ctx), struct{}{}, func(ctx context.Context) (map[string]error, error) {
		return h.runAll(ctx), nil
	})
	return results
}

func (h *Health) recent() map[string]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.checked) >= checkMaxAge {
		return nil
	}
	return h.results
}

func (h *Health) runAll(ctx context.Context) map[string]error {
	h.mu.Lock()
	checks := maps.Clone(h.checks)
	h.mu.Unlock()
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		results = make(map[string]error, len(checks))
	)
	for name, check := range checks {
		running.Go(func() {
			err := runCheck(ctx, check)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	running.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results, h.checked = results, time.Now()
	return results
}

// runCheck returns the result of one check. A check that panics fails.
func runCheck(ctx context.Context, check func(context.Context) error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return check(ctx)
}
