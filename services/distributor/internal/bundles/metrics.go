// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/cas"
)

// scope names the package's tracer and meter.
const scope = "github.com/leatdev/leat/services/distributor/internal/bundles"

// newCounters returns the cache's counters. It also makes the gauges, which read the store's usage
// when they are collected.
func newCounters(meter metric.Meter, store cas.Store) (opened, fills metric.Int64Counter, err error) {
	count := func(name, unit, description string) (metric.Int64Counter, error) {
		return meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	}
	opened, err = count("leat.bundle.opened", "{bundle}", "Bundles that were asked for, by whether the node's cache had them.")
	fills, err2 := count("leat.bundle.fill", "{fill}", "Bundles fetched into the node's cache, by outcome.")
	usage, err3 := meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles on the node's disk."))
	limit, err4 := meter.Int64ObservableGauge("leat.cas.limit", metric.WithUnit("By"),
		metric.WithDescription("Bound of leat.cas.usage."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, nil, fmt.Errorf("make instrument: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		used, err := store.Usage(ctx)
		if err == nil {
			o.ObserveInt64(usage, used.Bytes)
			o.ObserveInt64(limit, used.MaxBytes)
		}
		return err
	}, usage, limit)
	return opened, fills, err
}
