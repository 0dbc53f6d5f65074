// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/telemetry"
)

// bundleResult is what became of a download, or of what an earlier one brought.
type bundleResult string

const (
	resultWhole    bundleResult = "whole"    // the bundle came whole
	resultDelta    bundleResult = "delta"    // it was rebuilt from a delta
	resultFallback bundleResult = "fallback" // a delta was of no use; the whole bundle is downloaded next
	resultResumed  bundleResult = "resumed"  // a transfer went on where another was cut off
	resultDamaged  bundleResult = "damaged"  // stored bytes were not what they should be, and were dropped
)

type bundleMetrics struct {
	results  metric.Int64Counter
	received metric.Int64Counter
}

func newBundleMetrics(t *telemetry.Telemetry) (bundleMetrics, error) {
	meter := t.Meter("agent")
	results, err := meter.Int64Counter("leat.bundle.download", metric.WithUnit("{download}"),
		metric.WithDescription("What became of downloads and stored bundles, by result."))
	received, err2 := meter.Int64Counter("leat.bundle.received", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bundles and deltas that were downloaded."))
	if err := errors.Join(err, err2); err != nil {
		return bundleMetrics{}, fmt.Errorf("make counters: %w", err)
	}
	return bundleMetrics{results: results, received: received}, nil
}

func (m bundleMetrics) count(ctx context.Context, result bundleResult) {
	m.results.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.download.result", string(result))))
}
