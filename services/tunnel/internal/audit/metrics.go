// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Why records are counted as lost.
const (
	reasonFull    = "queue_full"
	reasonTimeout = "timeout"
	reasonFailed  = "write_failed"
	reasonClosed  = "shutdown"
)

// queueMetrics counts an output's records.
type queueMetrics struct {
	output  attribute.KeyValue
	counted metric.MeasurementOption // output alone
	written metric.Int64Counter
	dropped metric.Int64Counter
}

func newQueueMetrics(params QueueParams, waiting func() int64) (*queueMetrics, error) {
	m := &queueMetrics{output: attribute.String("output", params.Name)}
	m.counted = metric.WithAttributeSet(attribute.NewSet(m.output))
	var err error
	if m.written, err = params.Meter.Int64Counter("leat.tunnel.audit.records", metric.WithUnit("{record}"),
		metric.WithDescription("Audit records that were written.")); err != nil {
		return nil, fmt.Errorf("make counter: %w", err)
	}
	if m.dropped, err = params.Meter.Int64Counter("leat.tunnel.audit.dropped", metric.WithUnit("{record}"),
		metric.WithDescription("Audit records that were not written, by reason.")); err != nil {
		return nil, fmt.Errorf("make counter: %w", err)
	}
	_, err = params.Meter.Int64ObservableGauge("leat.tunnel.audit.queue", metric.WithUnit("By"),
		metric.WithDescription("Audit records that wait to be written."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(waiting(), m.counted)
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("make gauge: %w", err)
	}
	return m, nil
}

func (m *queueMetrics) wrote(ctx context.Context, n int64) {
	if n > 0 {
		m.written.Add(ctx, n, m.counted)
	}
}

func (m *queueMetrics) lose(ctx context.Context, reason string, n int64) {
	if n > 0 {
		m.dropped.Add(ctx, n, metric.WithAttributes(m.output, attribute.String("reason", reason)))
	}
}
