// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// counts are what a router has done.
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
	replicas, err := meter.Int64ObservableGauge("leat.tunnel.replica.count", metric.WithUnit("{replica}"),
		metric.WithDescription("Replicas of the tunnel that live, as this one knows."))
	hops, err2 := meter.Int64ObservableCounter("leat.tunnel.hop.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that this replica has sent to another one, which has the agent."))
	moved, err3 := meter.Int64ObservableCounter("leat.tunnel.hop.moved", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that were sent again, over another connection or replica."))
	lookups, err4 := meter.Int64ObservableCounter("leat.tunnel.route.lookups", metric.WithUnit("{lookup}"),
		metric.WithDescription("Questions to Redis for an agent's routes, by outcome: found, absent, failed."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return fmt.Errorf("make instruments: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(replicas, int64(r.Replicas()))
		o.ObserveInt64(hops, r.counts.hops.Load())
		o.ObserveInt64(moved, r.counts.moved.Load())
		for outcome, count := range map[string]*atomic.Int64{
			"found": &r.counts.found, "absent": &r.counts.absent, "failed": &r.counts.failing,
		} {
			o.ObserveInt64(lookups, count.Load(), metric.WithAttributes(attribute.String("outcome", outcome)))
		}
		return nil
	}, replicas, hops, moved, lookups)
	if err != nil {
		return fmt.Errorf("register instruments: %w", err)
	}
	return nil
}
