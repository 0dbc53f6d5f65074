// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receptive

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// meters are the counters of a Keeper; the zero value counts nothing.
type meters struct {
	dials metric.Int64Counter
}

// Observe measures the Keeper. It is called at most once, before Run.
func (k *Keeper) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	k.meters.dials = set.Int64Counter("leat.tunnel.dials", "{dial}",
		"Attempts of this replica to dial agents, by error.type when they fail.")
	set.Int64ObservableGauge("leat.tunnel.agents.apart", "{agent}",
		"Agents that this replica should dial but is not connected to.", instrument.Value(k.apart.Load))
	return set.Err()
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
