// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package costs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/leatdev/leat/services/distributor/internal/delivery/costs"
)

// TestCostsOfClusters has two clusters in one window, one of them in the next, and none in the last.
func TestCostsOfClusters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		c, err := costs.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(""))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		want := func(when string, clusters uint64, requests, sent float64) {
			t.Helper()
			synctest.Wait()
			var all metricdata.ResourceMetrics
			if err := reader.Collect(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			got := map[string]metricdata.HistogramDataPoint[float64]{}
			for _, scope := range all.ScopeMetrics {
				for _, m := range scope.Metrics {
					if h, ok := m.Data.(metricdata.Histogram[float64]); ok && len(h.DataPoints) == 1 {
						got[m.Name] = h.DataPoints[0]
					}
				}
			}
			for name, sum := range map[string]float64{"leat.cluster.requests": requests, "leat.cluster.sent": sent} {
				if point := got[name]; point.Count != clusters || point.Sum != sum || point.Attributes.Len() != 0 {
					t.Errorf("%s: %s has %d clusters with %g in %v, want %d with %g and no attribute", when, name, point.Count, point.Sum, point.Attributes, clusters, sum)
				}
			}
		}
		c.Asked("one")
		c.Asked("one")
		c.Sent("one", 1000)
		c.Asked("two")
		want("before the window ends", 0, 0, 0)
		<-time.After(costs.Window)
		want("after a window", 2, 3, 1000)
		c.Asked("two")
		c.Sent("two", 5)
		<-time.After(costs.Window)
		want("after another one", 3, 4, 1005)
		<-time.After(costs.Window)
		want("after one without requests", 3, 4, 1005)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
		var none *costs.Costs
		none.Asked("one")
	})
}
