// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are what a Keeper counts; the zero value counts nothing.
type meters struct {
	dials metric.Int64Counter
}

// Observe measures the Keeper. It is called at most once, before Run.
func (k *Keeper) Observe(meter metric.Meter) error {
	var err error
	k.meters.dials, err = meter.Int64Counter("leat.tunnel.dials",
		metric.WithUnit("{dial}"), metric.WithDescription("Attempts of this replica to dial agents, by error.type when they fail."))
	if err != nil {
		return fmt.Errorf("make counter: %w", err)
	}
	_, err = meter.Int64ObservableGauge("leat.tunnel.agents.apart",
		metric.WithUnit("{agent}"), metric.WithDescription("Agents that this replica is to dial and is not connected to."),
		metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
			observer.Observe(k.apart.Load())
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make gauge: %w", err)
	}
	return nil
}

func (m meters) dialled(ctx context.Context, failure Reason) {
	if m.dials == nil {
		return
	}
	var attributes []attribute.KeyValue
	if failure != "" {
		attributes = append(attributes, attribute.String("error.type", string(failure)))
	}
	m.dials.Add(ctx, 1, metric.WithAttributes(attributes...))
}
