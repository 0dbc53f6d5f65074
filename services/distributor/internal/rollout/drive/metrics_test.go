// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
)

// TestRunsWithoutRollouts requires that a replica which drives no rollouts says so, so that an alert finds a number.
func TestRunsWithoutRollouts(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	if _, err := drive.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if gauge, isGauge := m.Data.(metricdata.Gauge[int64]); isGauge && m.Name == "leat.distributor.rollout.runs" {
			for _, point := range gauge.DataPoints {
				state, _ := point.Attributes.Value("state")
				got[state.AsString()] = point.Value
			}
		}
	}
	if diff := cmp.Diff(map[string]int64{"running": 0, "paused": 0, "halted": 0}, got); diff != "" {
		t.Errorf("runs by state (-want +got):\n%s", diff)
	}
}
