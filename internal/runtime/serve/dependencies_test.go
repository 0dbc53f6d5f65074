// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/internal/runtime/serve"
)

// gauges collects the values of a gauge, by the value of an attribute.
func gauges(t *testing.T, reader sdkmetric.Reader, name string, by attribute.Key) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == name {
				for _, point := range gauge.DataPoints {
					value, _ := point.Attributes.Value(by)
					values[value.AsString()] = point.Value
				}
			}
		}
	}
	return values
}

// TestDependencies loses one of two servers, has the other one hang, and gives both back.
func TestDependencies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")
		var lost error
		hangs := false
		if err := serve.ObserveDependencies(meter, map[string]func(context.Context) error{
			"redis": func(context.Context) error { return lost },
			"database": func(ctx context.Context) error {
				if hangs {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		}); err != nil {
			t.Fatal(err)
		}
		want := func(redis, database int64) {
			t.Helper()
			<-time.After(time.Second) // the age at which an answer is asked for again
			got := gauges(t, reader, "leat.dependency.unreachable", "leat.dependency.name")
			if diff := cmp.Diff(map[string]int64{"redis": redis, "database": database}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		want(0, 0)
		lost = errors.New("connection refused")
		want(1, 0)
		hangs = true
		want(1, 1)
		lost, hangs = nil, false
		want(0, 0)
	})
}
