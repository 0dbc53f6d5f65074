// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
)

// instruments measure what passes through the door. They are safe for concurrent use.
type instruments struct {
	rejected metric.Int64Counter
	latency  metric.Float64Histogram
	duration metric.Float64Histogram

	received atomic.Int64 // bytes of bodies from callers
	sent     atomic.Int64 // bytes of bodies to callers

	ends instrument.Cached[ending, []metric.RecordOption]
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	i := &instruments{}
	set := instrument.New(meter)
	i.rejected = set.Int64Counter("leat.tunnel.request.rejected", "{request}",
		"Requests to clusters that the hub answered itself, by error.type, which is the reason, and by origin.")
	i.latency = set.Float64Histogram("leat.tunnel.added.latency", "s",
		"Time that the hub adds to a request, by phase: request, from its arrival until it goes to the agent; "+
			"response, from the agent's answer until it goes to the caller.",
		.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5)
	set.Int64ObservableCounter("leat.tunnel.transferred", "By",
		"Bytes of bodies, by network.io.direction: receive, from callers; transmit, to callers.",
		func(observe func(int64, ...attribute.KeyValue)) {
			observe(i.received.Load(), attribute.String("network.io.direction", "receive"))
			observe(i.sent.Load(), attribute.String("network.io.direction", "transmit"))
		})
	i.duration = set.Float64Histogram("leat.tunnel.request.duration", "s", "Duration of requests to clusters, watches included.")
	return i, set.Err()
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

// ending distinguishes the time series of durations.
type ending struct {
	outcome audit.Outcome
	endless bool
	status  int
}

// end measures a request that is over.
func (i *instruments) end(ctx context.Context, how ending, began time.Time) {
	if http.StatusText(how.status) == "" {
		how.status = how.status / 100 * 100 // a cluster may answer with any number, and each would be a time series
	}
	i.duration.Record(ctx, time.Since(began).Seconds(), i.ends.Get(how, ending.options)...)
}

func (e ending) options() []metric.RecordOption {
	return recordedWith(
		attribute.String("outcome", string(e.outcome)),
		attribute.Bool("endless", e.endless),
		attribute.Int("http.response.status_code", e.status),
	)
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
