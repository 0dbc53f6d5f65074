// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
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
	set := instrument.New(params.Meter)
	m.written = set.Int64Counter("leat.audit.records", "{record}", "Audit records that the tunnel or the distributor wrote, by output.")
	m.dropped = set.Int64Counter("leat.audit.dropped", "{record}", "Audit records that were not written, by reason.")
	for _, reason := range []string{reasonFull, reasonTimeout, reasonFailed, reasonClosed} {
		instrument.Begin(m.dropped, m.output, attribute.String("reason", reason))
	}
	set.Int64ObservableGauge("leat.audit.queue", "By", "Audit records that wait to be written.",
		func(observe func(int64, ...attribute.KeyValue)) { observe(waiting(), m.output) })
	return m, set.Err()
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
