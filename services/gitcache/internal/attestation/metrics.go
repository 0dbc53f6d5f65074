// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
)

// Metrics counts questions. A nil Metrics counts nothing. It is listed in the service's README.md.
type Metrics struct{ questions metric.Int64Counter }

// NewMetrics returns the metrics of all judges of a replica.
func NewMetrics(meter metric.Meter) (*Metrics, error) {
	set := instrument.New(meter)
	m := &Metrics{
		questions: set.Int64Counter("leat.signature.questions", "{question}", "Questions to upstreams about the signature of a chart or artifact."),
	}
	return m, set.Err()
}

// asked counts a question with its outcome.
func (m *Metrics) asked(ctx context.Context, v Verdict, err error) {
	if m == nil {
		return
	}
	result := "good"
	switch {
	case err != nil:
		result = "failed"
	case !v.IsGood():
		result = "bad"
	}
	m.questions.Add(ctx, 1, metric.WithAttributes(attribute.String("leat.signature.result", result)))
}
