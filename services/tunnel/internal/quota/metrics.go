// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Observe publishes how many are counted.
func (l *Ledger) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.tunnel.quota.accounts", "{account}",
		"People and clusters whose bytes are counted against a quota.", instrument.Value(func() int64 { return int64(l.Accounts()) }))
	set.Int64ObservableGauge("leat.tunnel.quota.exceeded", "{account}",
		"People and clusters who have used their quota up at the moment, by scope: user, cluster.",
		func(observe func(int64, ...attribute.KeyValue)) {
			for scope, n := range l.exceeded() {
				observe(n, attribute.String("scope", string(scope)))
			}
		})
	return set.Err()
}
