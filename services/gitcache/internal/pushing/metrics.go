// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pushing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// outcome is what has become of a push, for metrics.
type outcome string

const (
	outcomePushed     outcome = "pushed"
	outcomeUnchanged  outcome = "unchanged"
	outcomeOutdated   outcome = "outdated"
	outcomeRefused    outcome = "refused"
	outcomeNotAllowed outcome = "not_allowed"
	outcomeFailed     outcome = "failed"
)

type metrics struct{ pushes metric.Int64Counter }

func newMetrics(meter metric.Meter) (*metrics, error) {
	set := instrument.New(meter)
	m := &metrics{pushes: set.Int64Counter("leat.mirror.pushes", "{push}", "Pushes of the hub to upstreams, by what became of them.")}
	for _, o := range []outcome{outcomePushed, outcomeRefused, outcomeFailed} { // a rule about an increase needs a zero to begin with
		m.count(context.Background(), o, 0)
	}
	return m, set.Err()
}

func (m *metrics) count(ctx context.Context, o outcome, n int64) {
	m.pushes.Add(ctx, n, metric.WithAttributes(attribute.String("leat.push.outcome", string(o))))
}

// pushed counts a push. One that another replica has to make is counted there.
func (m *metrics) pushed(ctx context.Context, r Result, err error) {
	if !errors.Is(err, mirror.ErrNotOwner) {
		m.count(ctx, outcomeOf(r, err), 1)
	}
}

// outcomeOf returns what has become of a push. One whose pull request failed has failed.
func outcomeOf(r Result, err error) outcome {
	refused, _ := errors.AsType[*mirror.UpstreamError](err)
	switch {
	case err == nil && r.Pushed:
		return outcomePushed
	case err == nil:
		return outcomeUnchanged
	case refused == nil:
		return outcomeFailed
	}
	switch refused.Reason {
	case reason.PushOutdated:
		return outcomeOutdated
	case reason.PushRefused:
		return outcomeRefused
	case reason.PushNotAllowed:
		return outcomeNotAllowed
	default:
		return outcomeFailed
	}
}
