// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observe publishes the table's counts. The names of clusters stay out of them: there are too many.
func (t *Table) Observe(meter metric.Meter) error {
	sessions, err := meter.Int64ObservableGauge("leat.tunnel.session.active",
		metric.WithUnit("{session}"), metric.WithDescription("Connections of agents to this replica, by transport."))
	if err != nil {
		return fmt.Errorf("make gauge: %w", err)
	}
	streams, err := meter.Int64ObservableGauge("leat.tunnel.stream.active",
		metric.WithUnit("{stream}"), metric.WithDescription("Requests to clusters under way on this replica."))
	if err != nil {
		return fmt.Errorf("make gauge: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		_, streamCount := t.Counts()
		observer.ObserveInt64(streams, int64(streamCount))
		for transport, count := range t.transports() {
			observer.ObserveInt64(sessions, count, metric.WithAttributes(attribute.String("transport", transport)))
		}
		return nil
	}, sessions, streams)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}

// transports counts the sessions by how they were made.
func (t *Table) transports() map[string]int64 {
	counts := map[string]int64{}
	for _, s := range t.list("") {
		counts[s.info.Transport]++
	}
	return counts
}
