// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// counts are the counters of a router.
type counts struct {
	hops    atomic.Int64 // requests sent to other replicas
	moved   atomic.Int64 // requests sent again, elsewhere
	found   atomic.Int64 // look-ups that found a route
	absent  atomic.Int64 // look-ups that found none
	failing atomic.Int64 // look-ups that the store did not answer
}

// Observe publishes the router's counts. The names of clusters stay out of them: there are too
// many.
func (r *Router) Observe(meter metric.Meter) error {
	set := instrument.New(meter)
	set.Int64ObservableGauge("leat.tunnel.replica.count", "{replica}",
		"Replicas of the tunnel that live, as this one knows.", instrument.Value(func() int64 { return int64(r.Replicas()) }))
	set.Int64ObservableCounter("leat.tunnel.hop.requests", "{request}",
		"Requests that this replica has sent to another one, which has the agent.", instrument.Value(r.counts.hops.Load))
	set.Int64ObservableCounter("leat.tunnel.hop.moved", "{request}",
		"Requests that were sent again, over another connection or replica.", instrument.Value(r.counts.moved.Load))
	set.Int64ObservableCounter("leat.tunnel.route.lookups", "{lookup}",
		"Questions to Redis for an agent's routes, by outcome: found, absent, failed.",
		func(observe func(int64, ...attribute.KeyValue)) {
			observe(r.counts.found.Load(), attribute.String("outcome", "found"))
			observe(r.counts.absent.Load(), attribute.String("outcome", "absent"))
			observe(r.counts.failing.Load(), attribute.String("outcome", "failed"))
		})
	return set.Err()
}
