// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observe publishes how many are counted.
func (l *Ledger) Observe(meter metric.Meter) error {
	accounts, err := meter.Int64ObservableGauge("leat.tunnel.quota.accounts", metric.WithUnit("{account}"),
		metric.WithDescription("People and clusters whose bytes are counted against a quota."))
	if err != nil {
		return fmt.Errorf("make gauge: %w", err)
	}
	exceeded, err := meter.Int64ObservableGauge("leat.tunnel.quota.exceeded", metric.WithUnit("{account}"),
		metric.WithDescription("People and clusters who have used their quota up at the moment, by scope: user, cluster."))
	if err != nil {
		return fmt.Errorf("make gauge: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(accounts, int64(l.Accounts()))
		for scope, n := range l.exceeded() {
			o.ObserveInt64(exceeded, n, metric.WithAttributes(attribute.String("scope", string(scope))))
		}
		return nil
	}, accounts, exceeded)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}
