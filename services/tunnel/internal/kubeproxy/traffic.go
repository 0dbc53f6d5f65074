// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
)

// instruments measure what passes through the door. They are safe for concurrent use.
type instruments struct {
	rejected metric.Int64Counter
	latency  metric.Float64Histogram
	duration metric.Float64Histogram

	received atomic.Int64 // bytes of bodies from callers
	sent     atomic.Int64 // bytes of bodies to callers

	mu   sync.RWMutex
	ends map[ending][]metric.RecordOption
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	i := &instruments{ends: map[ending][]metric.RecordOption{}}
	var err, err2, err3, err4 error
	i.rejected, err = meter.Int64Counter("leat.tunnel.request.rejected", metric.WithUnit("{request}"),
		metric.WithDescription("Requests to clusters that the hub answered itself, by error.type, which is the reason, and by origin."))
	i.latency, err2 = meter.Float64Histogram("leat.tunnel.added.latency", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5),
		metric.WithDescription("Time that the hub adds to a request, by phase: request, from its arrival until it goes to the agent; "+
			"response, from the agent's answer until it goes to the caller."))
	_, err3 = meter.Int64ObservableCounter("leat.tunnel.transferred", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bodies, by network.io.direction: receive, from callers; transmit, to callers."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(i.received.Load(), metric.WithAttributes(attribute.String("network.io.direction", "receive")))
			o.Observe(i.sent.Load(), metric.WithAttributes(attribute.String("network.io.direction", "transmit")))
			return nil
		}))
	i.duration, err4 = meter.Float64Histogram("leat.tunnel.request.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of requests to clusters, watches included."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	return i, nil
}

// reject counts an answer that the hub gave itself.
func (i *instruments) reject(ctx context.Context, refused *refusal) {
	i.rejected.Add(ctx, 1, metric.WithAttributes(
		attribute.String(telemetry.KeyErrorType, refused.reason.String()), attribute.String("origin", refused.origin)))
}

// The phases in which the hub has a request to itself.
var (
	phaseRequest  = phase("request")
	phaseResponse = phase("response")
)

func phase(name string) []metric.RecordOption { return recordedWith(attribute.String("phase", name)) }

// recordedWith returns the options of a measurement, to be used for many.
func recordedWith(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func (i *instruments) delay(ctx context.Context, phase []metric.RecordOption, since time.Time) {
	i.latency.Record(ctx, time.Since(since).Seconds(), phase...)
}

// ending is what distinguishes the time series of durations.
type ending struct {
	outcome audit.Outcome
	endless bool
	status  int
}

// end measures a request that is over.
func (i *instruments) end(ctx context.Context, how ending, began time.Time) {
	i.duration.Record(ctx, time.Since(began).Seconds(), i.optionsOf(how)...)
}

func (i *instruments) optionsOf(how ending) []metric.RecordOption {
	if http.StatusText(how.status) == "" {
		how.status = how.status / 100 * 100 // a cluster may answer with any number, and each would be a time series
	}
	i.mu.RLock()
	options, known := i.ends[how]
	i.mu.RUnlock()
	if known {
		return options
	}
	options = recordedWith(
		attribute.String("outcome", string(how.outcome)),
		attribute.Bool("endless", how.endless),
		attribute.Int("http.response.status_code", how.status),
	)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ends[how] = options
	return options
}

// traffic counts the bytes of one request's bodies: for the hub's totals, and against quotas. The
// goroutine that reads the upload uses it, too.
type traffic struct {
	totals *instruments
	meter  *quota.Meter
	// overdrawn is set when the request has to end because of a quota.
	overdrawn atomic.Pointer[error]
}

// receive counts bytes from the caller. An error means that the request must end: a quota is used
// up twice.
func (t *traffic) receive(n int) error { return t.count(&t.totals.received, n) }

// send counts bytes to the caller, as receive does.
func (t *traffic) send(n int) error { return t.count(&t.totals.sent, n) }

func (t *traffic) count(total *atomic.Int64, n int) error {
	total.Add(int64(n))
	err := t.meter.Add(int64(n))
	if err != nil {
		t.overdrawn.Store(&err)
	}
	return err
}

// overdraft returns why the request had to end. It is nil unless a quota was the reason.
func (t *traffic) overdraft() error {
	if err := t.overdrawn.Load(); err != nil {
		return *err
	}
	return nil
}
