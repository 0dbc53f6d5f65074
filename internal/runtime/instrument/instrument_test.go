// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package instrument_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

func TestSet(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	set := instrument.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"))
	set.Int64Counter("seen", "{thing}", "Things seen.").Add(t.Context(), 2)
	set.Float64Histogram("took", "s", "How long it took.", 1, 10).Record(t.Context(), 5)
	set.Int64ObservableGauge("held", "By", "Bytes held.", instrument.Value(func() int64 { return 7 }))
	pool := func(name string) attribute.KeyValue { return attribute.String("pool", name) }
	set.Int64ObservableCounter("evicted", "By", "Bytes evicted.", func(observe func(int64, ...attribute.KeyValue)) {
		observe(1, pool("a"))
		observe(3, pool("b"))
	})
	if err := set.Err(); err != nil {
		t.Fatalf("make the instruments: %v", err)
	}

	sum := func(points ...metricdata.DataPoint[int64]) metricdata.Sum[int64] {
		return metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true, DataPoints: points}
	}
	want := []metricdata.Metrics{
		{Name: "seen", Unit: "{thing}", Description: "Things seen.", Data: sum(metricdata.DataPoint[int64]{Value: 2})},
		{Name: "took", Unit: "s", Description: "How long it took.", Data: metricdata.Histogram[float64]{
			Temporality: metricdata.CumulativeTemporality,
			DataPoints: []metricdata.HistogramDataPoint[float64]{{
				Count: 1, Sum: 5, Bounds: []float64{1, 10}, BucketCounts: []uint64{0, 1, 0},
				Min: metricdata.NewExtrema(5.0), Max: metricdata.NewExtrema(5.0),
			}},
		}},
		{Name: "held", Unit: "By", Description: "Bytes held.", Data: metricdata.Gauge[int64]{
			DataPoints: []metricdata.DataPoint[int64]{{Value: 7}},
		}},
		{Name: "evicted", Unit: "By", Description: "Bytes evicted.", Data: sum(
			metricdata.DataPoint[int64]{Value: 1, Attributes: attribute.NewSet(pool("a"))},
			metricdata.DataPoint[int64]{Value: 3, Attributes: attribute.NewSet(pool("b"))},
		)},
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatalf("collect: %v", err)
	}
	if len(got.ScopeMetrics) != 1 || len(got.ScopeMetrics[0].Metrics) != len(want) {
		t.Fatalf("got %+v, want %d metrics", got.ScopeMetrics, len(want))
	}
	for i := range want {
		metricdatatest.AssertEqual(t, want[i], got.ScopeMetrics[0].Metrics[i],
			metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
	}
}

func TestSetWithoutMeterMeasuresNothing(t *testing.T) {
	t.Parallel()
	set := instrument.New(nil)
	set.Int64Counter("seen", "1", "").Add(t.Context(), 1)
	set.Float64Histogram("took", "s", "").Record(t.Context(), 1)
	set.Int64ObservableGauge("held", "By", "", instrument.Value(func() int64 {
		t.Error("a value was read")
		return 0
	}))
	if err := set.Err(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestSetReportsEveryError(t *testing.T) {
	t.Parallel()
	meter := sdkmetric.NewMeterProvider().Meter("test")
	set := instrument.New(meter)
	for _, name := range []string{"1st", "2nd"} { // a name begins with a letter
		set.Int64Counter(name, "1", "")
	}
	err := set.Err()
	if err == nil || !strings.Contains(err.Error(), "1st") || !strings.Contains(err.Error(), "2nd") {
		t.Errorf("got %v, want both names", err)
	}
}

func TestCachedMakesAValueOnce(t *testing.T) {
	t.Parallel()
	var (
		cached instrument.Cached[string, metric.MeasurementOption]
		made   int
	)
	produce := func(name string) metric.MeasurementOption {
		made++
		return metric.WithAttributes(attribute.String("name", name))
	}
	for range 3 {
		cached.Get("a", produce)
		cached.Get("b", produce)
	}
	if made != 2 {
		t.Errorf("made %d values, want one for each of two keys", made)
	}
}
