// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Observe publishes the table's counts. The names of clusters stay out of them: there are too many.
func (t *Table) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.tunnel.session.active", "{session}",
		"Connections of agents to this replica, by transport.",
		func(observe func(int64, ...attribute.KeyValue)) {
			for transport, count := range t.transports() {
				observe(count, attribute.String("transport", transport))
			}
		})
	set.Int64ObservableGauge("leat.tunnel.stream.active", "{stream}",
		"Requests to clusters under way on this replica.", instrument.Value(func() int64 {
			_, streams := t.Counts()
			return int64(streams)
		}))
	return set.Err()
}

// transports counts the sessions by how they were made.
func (t *Table) transports() map[string]int64 {
	counts := map[string]int64{}
	for _, s := range t.list("") {
		counts[s.info.Transport]++
	}
	return counts
}
