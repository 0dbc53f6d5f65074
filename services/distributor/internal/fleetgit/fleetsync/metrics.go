// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleetsync

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Metrics counts looks at fleet sources.
type Metrics struct{ looks metric.Int64Counter }

// NewMetrics returns the metrics.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	looks, err := meter.Int64Counter("leat.distributor.fleet_source.looks", metric.WithUnit("{look}"),
		metric.WithDescription("Looks at fleet sources that found something new, by result: ok, or the reason of the problem."))
	return &Metrics{looks: looks}, err
}

// looked counts a look with the problem after it, or nil.
func (m *Metrics) looked(ctx context.Context, problem *catalog.Problem) {
	result := "ok"
	if problem != nil {
		result = problem.Reason.String()
	}
	m.looks.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.result", result)))
}
