// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// bundleResult is the outcome of a download, or of a check of stored bytes.
type bundleResult string

const (
	resultWhole    bundleResult = "whole"    // the whole bundle was downloaded
	resultDelta    bundleResult = "delta"    // the bundle was rebuilt from a delta
	resultFallback bundleResult = "fallback" // a delta could not be used; the whole bundle is downloaded next
	resultResumed  bundleResult = "resumed"  // a transfer continued an incomplete one
	resultDamaged  bundleResult = "damaged"  // stored bytes were damaged and removed
)

type bundleMetrics struct {
	results  metric.Int64Counter
	received metric.Int64Counter
}

func newBundleMetrics(t *telemetry.Telemetry) (bundleMetrics, error) {
	meter := t.Meter("agent")
	results, err := meter.Int64Counter("leat.bundle.download", metric.WithUnit("{download}"),
		metric.WithDescription("Downloads and checks of stored bundles, by result."))
	received, err2 := meter.Int64Counter("leat.bundle.received", metric.WithUnit("By"),
		metric.WithDescription("Downloaded bytes of bundles and deltas."))
	if err := errors.Join(err, err2); err != nil {
		return bundleMetrics{}, fmt.Errorf("make counters: %w", err)
	}
	return bundleMetrics{results: results, received: received}, nil
}

func (m bundleMetrics) count(ctx context.Context, result bundleResult) {
	m.results.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.download.result", string(result))))
}
