// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// Observe registers instruments that report the relay's counts.
func (r *Relay) Observe(meter metric.Meter) error {
	upstreams, err := meter.Int64ObservableGauge("leat.tunnel.watch.upstreams", metric.WithUnit("{watch}"),
		metric.WithDescription("Watches of clusters that serve viewers of this replica, those that outlive their last one "+
			"included."))
	viewers, err2 := meter.Int64ObservableGauge("leat.tunnel.watch.viewers", metric.WithUnit("{viewer}"),
		metric.WithDescription("Viewers that leat.tunnel.watch.upstreams serve."))
	usage, err3 := meter.Int64ObservableGauge("leat.tunnel.watch.usage", metric.WithUnit("By"),
		metric.WithDescription("Memory of the histories from which viewers are served."))
	shared, err4 := meter.Int64ObservableCounter("leat.tunnel.watch.shared", metric.WithUnit("{viewer}"),
		metric.WithDescription("Viewers that cost the cluster no watch of their own."))
	lagged, err5 := meter.Int64ObservableCounter("leat.tunnel.watch.lagged", metric.WithUnit("{viewer}"),
		metric.WithDescription("Viewers whose watch was ended because they fell behind its history."))
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return fmt.Errorf("make instruments: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := r.Stats()
		o.ObserveInt64(upstreams, int64(stats.Upstreams))
		o.ObserveInt64(viewers, int64(stats.Viewers))
		o.ObserveInt64(usage, stats.Bytes)
		o.ObserveInt64(shared, stats.Shared)
		o.ObserveInt64(lagged, stats.Lagged)
		return nil
	}, upstreams, viewers, usage, shared, lagged)
	if err != nil {
		return fmt.Errorf("register instruments: %w", err)
	}
	return nil
}
