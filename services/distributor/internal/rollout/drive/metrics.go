// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/distributor/internal/rollout"
)

// Metrics count rollouts at the replica that drives them.
type Metrics struct {
	decisions metric.Int64Counter

	mu      sync.Mutex
	byState map[rollout.State]int64
}

// NewMetrics returns the metrics of rollouts.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	m := &Metrics{byState: noRuns()}
	var err error
	m.decisions, err = meter.Int64Counter("leat.distributor.rollout.decisions", metric.WithUnit("1"),
		metric.WithDescription("Decisions of rollouts, by kind: admit, withdraw, ask, wake, halt, done."))
	if err != nil {
		return nil, fmt.Errorf("make metrics of rollouts: %w", err)
	}
	for _, kind := range []rollout.DecisionKind{rollout.Admit, rollout.Withdraw, rollout.Ask, rollout.Wake, rollout.Halt, rollout.Done} {
		instrument.Begin(m.decisions, attribute.String("kind", string(kind)))
	}
	_, err = meter.Int64ObservableGauge("leat.distributor.rollout.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Latest rollouts of policies, by state, as the replica that drives rollouts counts them; the others count none."), metric.WithInt64Callback(m.report))
	if err != nil {
		return nil, fmt.Errorf("make metrics of rollouts: %w", err)
	}
	return m, nil
}

func (m *Metrics) report(_ context.Context, observer metric.Int64Observer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for state, n := range m.byState {
		observer.Observe(n, metric.WithAttributes(attribute.String("state", string(state))))
	}
	return nil
}

func (m *Metrics) observe(records map[string]*Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byState = noRuns()
	for _, record := range records {
		m.byState[record.Run.State]++
	}
}

// noRuns are the states that dashboards and alerts ask for. A replica that drives no rollouts has them, too: where there
// has been no policy yet, none does.
func noRuns() map[rollout.State]int64 {
	return map[rollout.State]int64{rollout.Running: 0, rollout.Paused: 0, rollout.Halted: 0}
}

// forget is called when this replica no longer drives.
func (m *Metrics) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byState = noRuns()
}

func (m *Metrics) decided(decisions []rollout.Decision) {
	for _, d := range decisions {
		m.decisions.Add(context.Background(), 1, metric.WithAttributes(attribute.String("kind", string(d.Kind))))
	}
}
