// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fanin

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Observe registers instruments that report the relay's counts.
func (r *Relay) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	of := func(read func(Stats) int64) instrument.Values {
		return instrument.Value(func() int64 { return read(r.Stats()) })
	}
	set.Int64ObservableGauge("leat.tunnel.watch.upstreams", "{watch}",
		"Watches of clusters that serve viewers of this replica, those that outlive their last one included.",
		of(func(s Stats) int64 { return int64(s.Upstreams) }))
	set.Int64ObservableGauge("leat.tunnel.watch.viewers", "{viewer}",
		"Viewers that leat.tunnel.watch.upstreams serve.", of(func(s Stats) int64 { return int64(s.Viewers) }))
	set.Int64ObservableGauge("leat.tunnel.watch.usage", "By",
		"Memory of the histories from which viewers are served.", of(func(s Stats) int64 { return s.Bytes }))
	set.Int64ObservableCounter("leat.tunnel.watch.shared", "{viewer}",
		"Viewers that cost the cluster no watch of their own.", of(func(s Stats) int64 { return s.Shared }))
	set.Int64ObservableCounter("leat.tunnel.watch.lagged", "{viewer}",
		"Viewers whose watch was ended because they fell behind its history.", of(func(s Stats) int64 { return s.Lagged }))
	return set.Err()
}
