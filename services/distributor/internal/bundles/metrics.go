// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundles

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/cas"
)

// counts are the cache's counters.
type counts struct {
	opened, fills metric.Int64Counter
}

// newCounts makes the counters, and the gauges that look at the store when they are read.
func newCounts(meter metric.Meter, store cas.Store) (counts, error) {
	count := func(name, unit, description string) (metric.Int64Counter, error) {
		return meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	}
	opened, err := count("leat.bundle.opened", "{bundle}", "Bundles that were asked for, by whether the node's cache had them.")
	fills, err2 := count("leat.bundle.fill", "{fill}", "Bundles fetched into the node's cache, by outcome.")
	usage, err3 := meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles on the node's disk."))
	limit, err4 := meter.Int64ObservableGauge("leat.cas.limit", metric.WithUnit("By"),
		metric.WithDescription("Bound of leat.cas.usage."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return counts{}, fmt.Errorf("make instrument: %w", err)
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		used, err := store.Usage(ctx)
		if err == nil {
			o.ObserveInt64(usage, used.Bytes)
			o.ObserveInt64(limit, used.MaxBytes)
		}
		return err
	}, usage, limit)
	return counts{opened: opened, fills: fills}, err
}

// openedWith counts a bundle that was asked for.
func (c counts) openedWith(ctx context.Context, result string) {
	c.opened.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.bundle.result", result)))
}
