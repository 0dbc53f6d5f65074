// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring_test

import (
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// measured returns the metric of that name.
func measured(t *testing.T, reader *sdkmetric.ManualReader, name string) metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m.Data
			}
		}
	}
	return nil
}

// TestRequestedFetchesAreMeasured requests one fetch that begins at once, and two that share the next one. Polls are not
// requested.
func TestRequestedFetchesAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, reader := newWorld(), sdkmetric.NewManualReader()
		w.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
		set, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		r := get(t, set, "demo")
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		request := func() {
			t.Helper()
			if _, err := r.Refresh(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		if got := measured(t, reader, "leat.mirror.fetch.delay"); got != nil {
			t.Errorf("after polls alone: got %v, want nothing", got)
		}
		request()
		pass(time.Second / 4)
		request()
		pass(time.Second / 4)
		request()
		pass(time.Hour)
		got, _ := measured(t, reader, "leat.mirror.fetch.delay").(metricdata.Histogram[float64])
		if len(got.DataPoints) != 1 || got.DataPoints[0].Count != 2 || got.DataPoints[0].Sum != 0.75 {
			t.Errorf("got %+v, want one delay of nothing and one of 0.75 s", got.DataPoints)
		}
	})
}

// TestRepositoryThatWaitsLongestIsMeasured has a host that lets nobody in for a while.
func TestRepositoryThatWaitsLongestIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, reader := newWorld(), sdkmetric.NewManualReader()
		w.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("")
		open := make(chan struct{})
		w.gate = &gate{open: open}
		_, stop := w.replica(t, "a", nil, definition("demo"))
		defer stop()
		want := func(when string, age float64) {
			t.Helper()
			got, _ := measured(t, reader, "leat.mirror.waiting.age").(metricdata.Gauge[float64])
			for _, point := range got.DataPoints {
				queue, _ := point.Attributes.Value("leat.queue")
				if queue.AsString() == "host" && point.Value == age {
					return
				}
			}
			t.Errorf("%s: got %+v, want %g s for the host", when, got.DataPoints, age)
		}
		synctest.Wait()
		<-time.After(10 * time.Second)
		want("while the host lets nobody in", 10)
		close(open)
		synctest.Wait()
		want("afterwards", 0)
	})
}
