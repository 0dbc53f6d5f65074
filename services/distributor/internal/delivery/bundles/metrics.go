// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// scope names the package's tracer and meter.
const scope = "github.com/leatdev/leat/services/distributor/internal/delivery/bundles"

// newCounters returns the cache's counters. It also makes the gauges, which read the store's usage
// when they are collected.
func newCounters(meter metric.Meter, store cas.Store) (opened, fills metric.Int64Counter, err error) {
	set := instrument.New(meter)
	opened = set.Int64Counter("leat.bundle.opened", "{bundle}", "Bundles that were asked for, by whether the node's cache had them.")
	fills = set.Int64Counter("leat.bundle.fill", "{fill}", "Bundles fetched into the node's cache, by outcome.")
	usage := func(part func(cas.Usage) int64) instrument.Values {
		return func(observe func(int64, ...attribute.KeyValue)) {
			if used, err := store.Usage(context.Background()); err == nil {
				observe(part(used))
			}
		}
	}
	set.Int64ObservableGauge("leat.cas.usage", "By", "Bytes of bundles on the node's disk.",
		usage(func(u cas.Usage) int64 { return u.Bytes }))
	set.Int64ObservableGauge("leat.cas.limit", "By", "Bound of leat.cas.usage.",
		usage(func(u cas.Usage) int64 { return u.MaxBytes }))
	return opened, fills, set.Err()
}
