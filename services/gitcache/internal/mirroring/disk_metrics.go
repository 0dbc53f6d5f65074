// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Why a mirror was removed from the disk.
const (
	evictedUndefined = "undefined"
	evictedUnneeded  = "unneeded"
)

// diskMetrics show how full the folder of mirrors is, and what is done about it.
type diskMetrics struct {
	compactions metric.Float64Histogram
	evictions   metric.Int64Counter
}

func newDiskMetrics(meter metric.Meter, disk mirror.Disk) (diskMetrics, error) {
	compactions, err := meter.Float64Histogram("leat.mirror.compaction.duration",
		metric.WithUnit("s"), metric.WithDescription("Time it took to make fewer files of a mirror's."))
	evictions, err2 := meter.Int64Counter("leat.mirror.evictions",
		metric.WithUnit("{mirror}"), metric.WithDescription("Mirrors that were removed because nobody needs them on this replica."))
	if err := errors.Join(err, err2, observeDisk(meter, disk)); err != nil {
		return diskMetrics{}, err
	}
	for _, why := range []string{evictedUndefined, evictedUnneeded} { // a rule about an increase needs a zero to begin with
		evictions.Add(context.Background(), 0, metric.WithAttributes(attribute.String("leat.eviction.reason", why)))
	}
	return diskMetrics{compactions: compactions, evictions: evictions}, nil
}

func observeDisk(meter metric.Meter, disk mirror.Disk) error {
	used, err := meter.Int64ObservableGauge("leat.mirror.disk.usage",
		metric.WithUnit("By"), metric.WithDescription("Bytes of mirrors on disk."))
	limit, err2 := meter.Int64ObservableGauge("leat.mirror.disk.limit",
		metric.WithUnit("By"), metric.WithDescription("Bound of leat.mirror.disk.usage; 0: only the disk's."))
	packs, err3 := meter.Int64ObservableGauge("leat.mirror.packs",
		metric.WithUnit("{pack}"), metric.WithDescription("Packs of all mirrors on disk."))
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		usage := disk.Usage()
		o.ObserveInt64(used, usage.Bytes)
		o.ObserveInt64(limit, usage.Limit)
		o.ObserveInt64(packs, int64(usage.Packs))
		return nil
	}, used, limit, packs)
	return err
}

func (m diskMetrics) evicted(ctx context.Context, why string) {
	m.evictions.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.eviction.reason", why)))
}

func (m diskMetrics) compacted(ctx context.Context, done mirror.Compaction, err error) {
	result := "small"
	switch {
	case err != nil:
		result = "failed"
	case done.Full:
		result = "full"
	}
	m.compactions.Record(ctx, done.Took.Seconds(), metric.WithAttributes(attribute.String("leat.compaction.result", result)))
}
