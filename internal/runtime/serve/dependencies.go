// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// ObserveDependencies measures which of the servers that a service needs it reaches, by checks of
// the kind that [Health.Register] takes. A service that survives the loss of one stays ready, so its
// readiness does not show that.
func ObserveDependencies(meter metric.Meter, checks map[string]func(context.Context) error) error {
	health := NewHealth()
	for name, check := range checks {
		health.Register(name, check)
	}
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.dependency.unreachable", "{dependency}",
		"1 while this replica does not reach a server that it needs, by leat.dependency.name: database, redis; 0 otherwise.",
		func(observe func(int64, ...attribute.KeyValue)) {
			for name, err := range health.run(context.Background()) {
				var lost int64
				if err != nil {
					lost = 1
				}
				observe(lost, attribute.String("leat.dependency.name", name))
			}
		})
	return set.Err()
}
