// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type metrics struct {
	duration metric.Float64Histogram
}

func newMetrics(meter metric.Meter, owned *atomic.Int64) (*metrics, error) {
	duration, err := meter.Float64Histogram("leat.mirror.fetch.duration",
		metric.WithUnit("s"), metric.WithDescription("Time a fetch from an upstream took, polls that found nothing new included."))
	if err != nil {
		return nil, err
	}
	_, err = meter.Int64ObservableUpDownCounter("leat.mirror.owned",
		metric.WithUnit("{repository}"), metric.WithDescription("Repositories that this replica owns."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(owned.Load())
			return nil
		}))
	return &metrics{duration: duration}, err
}

func (m *metrics) fetched(ctx context.Context, o outcome, took time.Duration, clone bool) {
	kind, result := "fetch", "unchanged"
	if clone {
		kind = "clone"
	}
	if o.all || len(o.changed) > 0 {
		result = "changed"
	}
	attributes := []attribute.KeyValue{attribute.String("leat.fetch.kind", kind)}
	if o.reason != "" {
		attributes = append(attributes, attribute.String("error.type", string(o.reason)))
		result = "failed"
	}
	attributes = append(attributes, attribute.String("leat.fetch.result", result))
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
}
