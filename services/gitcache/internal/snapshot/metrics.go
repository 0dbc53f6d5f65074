// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/runtime/instrument"
)

// metrics are listed in the service's README.md.
type metrics struct {
	resolves metric.Float64Histogram
	builds   metric.Float64Histogram
	opened   metric.Int64Counter
	waiting  waiting.Line // of builds
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set := instrument.New(meter)
	m := &metrics{
		resolves: set.Float64Histogram("leat.snapshot.resolve.duration", "s", "Time it took to find the digest of what is selected of a commit.",
			.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30),
		builds: set.Float64Histogram("leat.bundle.build.duration", "s", "Time it took to build a bundle from a mirror.",
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300),
		opened: set.Int64Counter("leat.bundle.opened", "{bundle}", "Bundles that this replica was asked for, by whether it had them."),
	}
	_, err := meter.Int64ObservableUpDownCounter("leat.bundle.waiting", metric.WithUnit("{bundle}"),
		metric.WithDescription("Bundles that wait to be built."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(m.waiting.Len()))
			return nil
		}))
	set.Float64ObservableGauge("leat.bundle.waiting.age", "s", "For how long the bundle has waited to be built that has waited longest; 0: none does.",
		instrument.Age(m.waiting.Age))
	return m, errors.Join(set.Err(), err)
}

// resolved counts an answer of Resolve.
func (m *metrics) resolved(ctx context.Context, started time.Time, result string) {
	m.resolves.Record(ctx, time.Since(started).Seconds(), metric.WithAttributes(attribute.String("leat.resolve.result", result)))
}

// The values of the attribute leat.resolve.result.
const (
	resolveKnown  = "known"  // from memory
	resolveBuilt  = "built"  // after reading the content
	resolveFailed = "failed" // the selection is not there, cannot be a bundle, or could not be read
)

func (m *metrics) built(ctx context.Context, started time.Time, err error) {
	result := "built"
	switch {
	case isPermanent(err):
		result = "refused"
	case err != nil:
		result = "failed"
	}
	m.builds.Record(ctx, time.Since(started).Seconds(), metric.WithAttributes(attribute.String("leat.build.result", result)))
}

// openedStored counts a bundle that was asked for, and whether it was stored here.
func (m *metrics) openedStored(ctx context.Context, err error) {
	result := "stored"
	switch {
	case errors.Is(err, ErrBundleNotFound):
		result = "missing"
	case err != nil:
		result = "failed"
	}
	m.opened.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.bundle.result", result)))
}
