// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/encodings"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// measure makes the gauges that look at the fleet, and at what is made of bundles, when they are
// read.
func measure(tel *telemetry.Telemetry, view *fleet.View, plans *fanout.Hub[string], encoded *encodings.Store) error {
	meter := tel.Meter(scope)
	objects, err := meter.Int64ObservableGauge("leat.fleet.objects", metric.WithUnit("{object}"),
		metric.WithDescription("Catalogued objects, by kind."))
	connected, err2 := meter.Int64ObservableGauge("leat.agent.connected", metric.WithUnit("{agent}"),
		metric.WithDescription("Agents that hold a plan stream of this replica open."))
	watchers, err3 := meter.Int64ObservableGauge("leat.plan.watchers", metric.WithUnit("{watcher}"),
		metric.WithDescription("Open plan streams of this replica."))
	encodedBytes, err4 := meter.Int64ObservableGauge("leat.encoding.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles on the node's disk in gzip and without compression."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		totals := view.Totals()
		for kind, n := range map[string]int{"cluster": totals.Clusters, "repository": totals.Repositories, "service": totals.Services} {
			o.ObserveInt64(objects, int64(n), metric.WithAttributes(attribute.String("kind", kind)))
		}
		o.ObserveInt64(connected, int64(view.Connected()))
		o.ObserveInt64(watchers, int64(plans.Watchers()))
		o.ObserveInt64(encodedBytes, encoded.Usage())
		return nil
	}, objects, connected, watchers, encodedBytes)
	return err
}
