// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/waiting"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// metrics are the metrics of all repositories of a set; README.md lists them. None names a
// repository: each would be a time series of its own, and logs and traces name them.
type metrics struct {
	fetches     metric.Float64Histogram
	received    metric.Int64Counter
	moved       metric.Int64Counter
	leases      metric.Int64Counter
	copies      metric.Float64Histogram
	compactions metric.Float64Histogram
	evictions   metric.Int64Counter
	delays      metric.Float64Histogram
	waiting     [queues]waiting.Line
}

// queue is something that repositories wait for.
type queue int

const (
	queueHost queue = iota // the upstream's host, which has others in conversation
	queueFetch
	queueClone
	queueCopy
	queues
)

// String returns the value of the attribute leat.queue.
func (q queue) String() string { return [...]string{"host", "fetch", "clone", "copy"}[q] }

// transferTimes are the buckets, in seconds, of transfers over a network: from a poll that finds
// nothing to a clone that takes all its time.
var transferTimes = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 1800}

func newMetrics(meter metric.Meter) (*metrics, error) {
	set := instrument.New(meter)
	m := &metrics{
		fetches: set.Float64Histogram("leat.mirror.fetch.duration", "s",
			"Time a fetch from an upstream took, polls that found nothing new included.", transferTimes...),
		delays: set.Float64Histogram("leat.mirror.fetch.delay", "s",
			"Time from the first request for a fetch, by a webhook, a person or another part of the hub, until it begins at the owner; its turns and the pause after an earlier one included.",
			transferTimes...),
		received: set.Int64Counter("leat.mirror.fetch.received", "By", "Bytes that came from upstreams."),
		moved:    set.Int64Counter("leat.mirror.refs.moved", "{ref}", "Refs that fetches found moved, new or gone."),
		leases: set.Int64Counter("leat.lease.changes", "{change}",
			"Leases of repositories that this replica won, gave away or lost."),
		copies: set.Float64Histogram("leat.mirror.copy.duration", "s",
			"Time it took to copy what a mirror lacked from another replica.", transferTimes...),
		compactions: set.Float64Histogram("leat.mirror.compaction.duration", "s", "Duration of the compaction of a mirror."),
		evictions: set.Int64Counter("leat.mirror.evictions", "{mirror}",
			"Mirrors that were removed because nobody needs them on this replica."),
	}
	for _, why := range []string{evictedUndefined, evictedUnneeded} { // a rule about an increase needs a zero to begin with
		m.evictions.Add(context.Background(), 0, metric.WithAttributes(attribute.String("leat.eviction.reason", why)))
	}
	return m, set.Err()
}

// wait counts a repository among the ones that wait for q until done is called.
func (m *metrics) wait(q queue) (done func()) { return m.waiting[q].Join() }

// began records a fetch that begins, and since when it was requested; zero: it is a poll.
func (m *metrics) began(ctx context.Context, requestedAt, now time.Time) {
	if !requestedAt.IsZero() {
		m.delays.Record(ctx, now.Sub(requestedAt).Seconds())
	}
}

func kindOf(clone bool) attribute.KeyValue {
	if clone {
		return attribute.String("leat.fetch.kind", "clone")
	}
	return attribute.String("leat.fetch.kind", "fetch")
}

// receiver returns what counts the bytes of one fetch.
func (m *metrics) receiver(ctx context.Context, clone bool) func(bytes int) {
	kind := metric.WithAttributeSet(attribute.NewSet(kindOf(clone)))
	return func(bytes int) { m.received.Add(ctx, int64(bytes), kind) }
}

// fetchResult is how a fetch ended, for metrics and logs.
type fetchResult struct {
	isClone bool
	took    time.Duration
	changed []string
	isAll   bool          // more refs changed than an event names
	reason  reason.Reason // why it failed; zero: it succeeded
	// hasTurned: the fetch before it came out otherwise.
	hasTurned bool
}

func (m *metrics) fetched(ctx context.Context, r fetchResult) {
	attributes := []attribute.KeyValue{kindOf(r.isClone)}
	result := "unchanged"
	switch {
	case r.reason != 0:
		attributes = append(attributes, attribute.String("error.type", r.reason.String()))
		result = "failed"
	case r.isAll || len(r.changed) > 0:
		result = "changed"
	}
	attributes = append(attributes, attribute.String("leat.fetch.result", result))
	m.fetches.Record(ctx, r.took.Seconds(), metric.WithAttributes(attributes...))
	m.moved.Add(ctx, int64(len(r.changed)))
}

func (m *metrics) copied(ctx context.Context, took time.Duration, err error) {
	result := "copied"
	if err != nil {
		result = "failed"
	}
	m.copies.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("leat.copy.result", result)))
}

// leaseChanged counts a lease that this replica won, gave or lost, and why.
func (m *metrics) leaseChanged(ctx context.Context, change, cause string) {
	m.leases.Add(ctx, 1, metric.WithAttributes(
		attribute.String("leat.lease.change", change), attribute.String("leat.lease.cause", cause)))
}

// Why a mirror was removed from the disk.
const (
	evictedUndefined = "undefined"
	evictedUnneeded  = "unneeded"
)

func (m *metrics) evicted(ctx context.Context, why string) {
	m.evictions.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.eviction.reason", why)))
}

func (m *metrics) compacted(ctx context.Context, done mirror.Compaction, err error) {
	result := "small"
	switch {
	case err != nil:
		result = "failed"
	case done.Full:
		result = "full"
	}
	m.compactions.Record(ctx, done.Took.Seconds(), metric.WithAttributes(attribute.String("leat.compaction.result", result)))
}
