// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Deliveries measures how long deliveries take, and how they end. It is safe for concurrent use.
type Deliveries struct {
	duration metric.Float64Histogram
	outcomes metric.Int64Counter
}

// NewDeliveries registers the metrics. Every outcome begins at zero, so that a rate sees the first.
func NewDeliveries(meter metric.Meter) (*Deliveries, error) {
	set := instrument.New(meter)
	d := &Deliveries{
		duration: set.Float64Histogram("leat.delivery.duration", "s",
			"Time from the plan of a service's content until the hub heard that it was applied or healthy, by leat.delivery.stage; once for each.",
			0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
		outcomes: set.Int64Counter("leat.delivery.outcomes", "{delivery}",
			"Deliveries that ended, by outcome: healthy, or failed or superseded when newer content came first."),
	}
	for _, outcome := range []catalog.RevisionOutcome{catalog.RevisionHealthy, catalog.RevisionFailed, catalog.RevisionSuperseded} {
		instrument.Begin(d.outcomes, outcomeOf(outcome))
	}
	return d, set.Err()
}

// Record records milestones. An exemplar of a duration names the trace of the change that was delivered, if that is
// sampled, and not that of the report.
func (d *Deliveries) Record(ctx context.Context, milestones []catalog.Milestone) {
	for _, m := range milestones {
		if m.Stage != "" {
			d.duration.Record(m.Trigger.Follow(trace.ContextWithSpanContext(ctx, trace.SpanContext{})), m.Took.Seconds(), metric.WithAttributes(attribute.String("leat.delivery.stage", string(m.Stage))))
		}
		if m.Outcome != catalog.RevisionUnknown {
			d.outcomes.Add(ctx, 1, metric.WithAttributes(outcomeOf(m.Outcome)))
		}
	}
}

func outcomeOf(outcome catalog.RevisionOutcome) attribute.KeyValue {
	return attribute.String("outcome", strings.ToLower(string(outcome)))
}
