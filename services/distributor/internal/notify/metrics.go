// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Metrics count sent messages. It is safe for concurrent use.
type Metrics struct {
	attempts metric.Int64Counter
	leading  atomic.Int64
	oldest   atomic.Pointer[time.Time] // when the oldest message was made that waits; nil: none does
}

// NewMetrics registers the metrics.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	m := new(Metrics)
	set := instrument.New(meter)
	m.attempts = set.Int64Counter("leat.notifications.attempts", "{attempt}", "Attempts to send a notification, by kind of sink and outcome: sent, retry or dead.")
	for _, sink := range []catalog.SinkType{catalog.SinkSlack, catalog.SinkWebhook, catalog.SinkCommitStatus, catalog.SinkEmail} {
		for _, outcome := range []string{"sent", "retry", "dead"} {
			instrument.Begin(m.attempts, attribute.String("sink", string(sink)), attribute.String("outcome", outcome))
		}
	}
	set.Int64ObservableGauge("leat.notifications.leader", "{replica}", "1 if this replica sends the notifications.", instrument.Value(m.leading.Load))
	set.Float64ObservableGauge("leat.notifications.waiting.age", "s",
		"Age of the oldest message that waits until its receiver takes it, at the replica that sends the notifications; 0: none waits.", instrument.Age(m.age))
	return m, set.Err()
}

// setOldest records when the oldest message was made that waits; zero: none does.
func (m *Metrics) setOldest(at time.Time) {
	if at.IsZero() {
		m.oldest.Store(nil)
	} else {
		m.oldest.Store(&at)
	}
}

// age returns the age of the oldest message that waits, or zero.
func (m *Metrics) age() time.Duration {
	if at := m.oldest.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

func (m *Metrics) leads(is bool) {
	m.setOldest(time.Time{})
	if is {
		m.leading.Store(1)
	} else {
		m.leading.Store(0)
	}
}

func (m *Metrics) count(n *catalog.Notifier, v Verdict) {
	outcome := "retry"
	switch {
	case v.Sent:
		outcome = "sent"
	case v.Dead:
		outcome = "dead"
	}
	m.attempts.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("sink", string(n.Spec.Sink.Type)), attribute.String("outcome", outcome)))
}
