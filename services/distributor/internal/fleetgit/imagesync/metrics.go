// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package imagesync

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Metrics counts looks at image policies, and their pushes.
type Metrics struct{ looks, pushes metric.Int64Counter }

// NewMetrics returns the metrics.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	looks, err := meter.Int64Counter("leat.distributor.image_policy.looks", metric.WithUnit("{look}"),
		metric.WithDescription("Looks at image policies, by result: ok, or the reason of the problem."))
	if err != nil {
		return nil, err
	}
	pushes, err := meter.Int64Counter("leat.distributor.image_policy.pushes", metric.WithUnit("{push}"),
		metric.WithDescription("Pushes of image policies, by whether they are for a pull request, and by result: ok, or the reason of the failure."))
	return &Metrics{looks: looks, pushes: pushes}, err
}

// looked counts a look with the problem after it, or nil.
func (m *Metrics) looked(ctx context.Context, problem *catalog.Problem) {
	result := "ok"
	if problem != nil {
		result = problem.Reason.String()
	}
	m.looks.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.result", result)))
}

// pushed counts a push that failed with an error, or nil.
func (m *Metrics) pushed(ctx context.Context, isPullRequest bool, err error) {
	result := "ok"
	if err != nil {
		result = reason.Internal.String()
		if failure, ok := errors.AsType[*resolve.Failure](err); ok {
			result = failure.Reason.String()
		}
	}
	m.pushes.Add(ctx, 1, metric.WithAttributes(attribute.Bool("leat.pull_request", isPullRequest), attribute.String("leat.result", result)))
}
