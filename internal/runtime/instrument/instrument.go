// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package instrument makes the instruments of one meter without asking for an error after each: the
// first errors are reported together, by [Set.Err].
package instrument

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Set makes instruments, by methods with the names of the meter's. Each instrument has a name, a
// UCUM unit and a description. A set is not safe for concurrent use; the instruments are.
type Set struct {
	meter metric.Meter
	errs  []error
}

// New returns a set of instruments of a meter. Nil: they measure nothing.
func New(meter metric.Meter) *Set {
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	return &Set{meter: meter}
}

// Err returns why instruments could not be made, nil if all were.
func (s *Set) Err() error {
	if err := errors.Join(s.errs...); err != nil {
		return fmt.Errorf("make instruments: %w", err)
	}
	return nil
}

// Int64Counter returns a counter.
func (s *Set) Int64Counter(name, unit, description string) metric.Int64Counter {
	counter, err := s.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	s.errs = append(s.errs, err)
	return counter
}

// Begin makes the time series of a counter with these attributes exist, at zero. Otherwise a rate over
// it does not see the first event.
func Begin(counter metric.Int64Counter, attributes ...attribute.KeyValue) {
	counter.Add(context.Background(), 0, metric.WithAttributes(attributes...))
}

// Float64Histogram returns a histogram with these bounds of its buckets; none means the standard's.
func (s *Set) Float64Histogram(name, unit, description string, bounds ...float64) metric.Float64Histogram {
	options := []metric.Float64HistogramOption{metric.WithUnit(unit), metric.WithDescription(description)}
	if len(bounds) > 0 {
		options = append(options, metric.WithExplicitBucketBoundaries(bounds...))
	}
	histogram, err := s.meter.Float64Histogram(name, options...)
	s.errs = append(s.errs, err)
	return histogram
}

// Values reads one number, or one for each value of an attribute, when metrics are collected. It
// may be called concurrently.
type Values func(observe func(value int64, attributes ...attribute.KeyValue))

// Value returns the values of a single number.
func Value(read func() int64) Values {
	return func(observe func(int64, ...attribute.KeyValue)) { observe(read()) }
}

// callback observes the values.
func (v Values) callback(_ context.Context, o metric.Int64Observer) error {
	v(func(value int64, attributes ...attribute.KeyValue) {
		o.Observe(value, metric.WithAttributes(attributes...))
	})
	return nil
}

// Ages reads one duration, or one for each value of an attribute, when metrics are collected. It may be
// called concurrently.
type Ages func(observe func(age time.Duration, attributes ...attribute.KeyValue))

// Age returns the ages of a single duration.
func Age(read func() time.Duration) Ages {
	return func(observe func(time.Duration, ...attribute.KeyValue)) { observe(read()) }
}

// Float64ObservableGauge has durations observed, in seconds.
func (s *Set) Float64ObservableGauge(name, unit, description string, ages Ages) {
	_, err := s.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			ages(func(age time.Duration, attributes ...attribute.KeyValue) {
				o.Observe(age.Seconds(), metric.WithAttributes(attributes...))
			})
			return nil
		}))
	s.errs = append(s.errs, err)
}

// Int64ObservableGauge has values observed that rise and fall.
func (s *Set) Int64ObservableGauge(name, unit, description string, values Values) {
	_, err := s.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithInt64Callback(values.callback))
	s.errs = append(s.errs, err)
}

// Int64ObservableCounter has values observed that only rise.
func (s *Set) Int64ObservableCounter(name, unit, description string, values Values) {
	_, err := s.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description),
		metric.WithInt64Callback(values.callback))
	s.errs = append(s.errs, err)
}
