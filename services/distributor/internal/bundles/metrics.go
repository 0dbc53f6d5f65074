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

// counts are the cache's counters.
type counts struct {
	hits, misses, fills metric.Int64Counter
}

// newCounts makes the counters, and the gauges that look at the store when they are read.
func newCounts(meter metric.Meter, store cas.Store) (counts, error) {
	count := func(name, unit, description string) (metric.Int64Counter, error) {
		return meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	}
	hits, err := count("leat.cas.hit", "{read}", "Bundles that were asked for and are in the node's cache.")
	misses, err2 := count("leat.cas.miss", "{read}", "Bundles that were asked for and are not in the node's cache, or not yet.")
	fills, err3 := count("leat.bundle.fill", "{fill}", "Bundles fetched into the node's cache, by outcome.")
	usage, err4 := meter.Int64ObservableGauge("leat.cas.usage", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles on the node's disk."))
	limit, err5 := meter.Int64ObservableGauge("leat.cas.limit", metric.WithUnit("By"),
		metric.WithDescription("Bound of leat.cas.usage."))
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
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
	return counts{hits: hits, misses: misses, fills: fills}, err
}
