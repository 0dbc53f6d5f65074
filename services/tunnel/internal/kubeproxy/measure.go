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

// instruments are what the door measures.
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
		metric.WithDescription("What the hub adds to a request, by phase: request, from its arrival until it goes to the agent; "+
			"response, from the agent's answer until it goes to the caller."))
	_, err3 = meter.Int64ObservableCounter("leat.tunnel.transferred", metric.WithUnit("By"),
		metric.WithDescription("Bytes of bodies, by network.io.direction: receive, from callers; transmit, to callers."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(i.received.Load(), metric.WithAttributes(attribute.String("network.io.direction", "receive")))
			o.Observe(i.sent.Load(), metric.WithAttributes(attribute.String("network.io.direction", "transmit")))
			return nil
		}))
	i.duration, err4 = meter.Float64Histogram("leat.tunnel.request.duration",
		metric.WithUnit("s"), metric.WithDescription("How long requests to clusters took, watches included."))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	return i, nil
}

// reject counts an answer of the hub's own.
func (i *instruments) reject(ctx context.Context, refused *refusal) {
	i.rejected.Add(ctx, 1, metric.WithAttributes(
		attribute.String(telemetry.KeyErrorType, refused.reason), attribute.String("origin", refused.origin)))
}

// The phases in which the hub has a request to itself.
var (
	phaseRequest  = phase("request")
	phaseResponse = phase("response")
)

func phase(name string) []metric.RecordOption { return recordedWith(attribute.String("phase", name)) }

// recordedWith makes the options of a measurement once for many.
func recordedWith(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func (i *instruments) delay(ctx context.Context, phase []metric.RecordOption, since time.Time) {
	i.latency.Record(ctx, time.Since(since).Seconds(), phase...)
}

// ending is what the durations of requests are told apart by. There are as many as there are time series.
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
		how.status = how.status / 100 * 100 // a cluster may answer with any number, and each would become a separate time series
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

// timed measures how long the hub itself takes.
type timed struct {
	stream

	call *call
}

// RoundTrip implements http.RoundTripper.
func (t timed) RoundTrip(req *http.Request) (*http.Response, error) {
	t.call.instruments.delay(req.Context(), phaseRequest, t.call.began)
	res, err := t.stream.RoundTrip(req)
	if err == nil {
		came := time.Now()
		t.call.w.began = func() { t.call.instruments.delay(req.Context(), phaseResponse, came) }
	}
	return res, err
}

// admit begins to count the request's bytes, unless a quota is used up.
func (c *call) admit() *refusal {
	meter, err := c.deps.Quota.Admit(c.subject, c.target.cluster+" "+c.decision.ClusterUID)
	if err != nil {
		return refuseQuota(err)
	}
	c.meter = meter
	c.w.moved = func(n int) error { return c.moved(&c.instruments.sent, n) }
	return nil
}

// moved counts bytes of a body, to be called for either direction. An error means that the request must end: a quota is
// used up twice over.
func (c *call) moved(total *atomic.Int64, n int) error {
	total.Add(int64(n))
	err := c.meter.Add(int64(n))
	if err != nil {
		c.overdraw(err)
	}
	return err
}

func (c *call) overdraw(err error) { c.overdrawn.Store(&err) }

// overdraft returns why the request had to end, if a quota was the reason.
func (c *call) overdraft() error {
	if err := c.overdrawn.Load(); err != nil {
		return *err
	}
	return nil
}

// reasonQuota is the reason when a quota is used up.
const reasonQuota = "RATE_LIMITED"

// refuseQuota says whose quota is used up, and until when.
func refuseQuota(err error) *refusal {
	var exceeded *quota.ExceededError
	if !errors.As(err, &exceeded) {
		return refuseInternal()
	}
	refused := refuseBusy(fmt.Sprintf("the %d bytes that this %s may move in %v are used up; retry in %v",
		exceeded.Limit, exceeded.Scope, exceeded.Window, exceeded.RetryAfter.Round(time.Second)))
	refused.retryAfter = exceeded.RetryAfter
	return refused
}
