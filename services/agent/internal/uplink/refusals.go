// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"

	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// refusalPause is the minimum time between two log lines about refused identities. A compromised
// hub must not fill the log.
const refusalPause = time.Second

// refusals counts and logs requests under identities that the agent does not allow. It is safe for
// concurrent use.
type refusals struct {
	logger *slog.Logger
	count  metric.Int64Counter
	logged atomic.Int64 // time of the last line, in nanoseconds since 1970
	silent atomic.Int64 // refusals without a line since then
}

// newRefusals returns refusals, or an error if the meter rejects its instrument. With a nil meter,
// refusals are not counted.
func newRefusals(meter metric.Meter, logger *slog.Logger) (*refusals, error) {
	if meter == nil {
		meter = noop.Meter{}
	}
	count, err := meter.Int64Counter("leat.uplink.identity.refused", metric.WithUnit("{request}"),
		metric.WithDescription("Requests of the hub under an identity that the agent does not allow, by error.type: reserved, Kubernetes' own; "+
			"not_allowed, not on the cluster's list; extra, an attribute that is not the hub's; malformed; nobody."))
	if err != nil {
		return nil, fmt.Errorf("make counter: %w", err)
	}
	return &refusals{logger: logger, count: count}, nil
}

// note counts a refusal, and logs it unless another one was logged within refusalPause.
func (n *refusals) note(r *http.Request, refused *refusal) {
	ctx := propagation.TraceContext{}.Extract(context.WithoutCancel(r.Context()), propagation.HeaderCarrier(r.Header))
	n.count.Add(ctx, 1, metric.WithAttributes(attribute.String(telemetry.KeyErrorType, refused.class)))
	now, last := time.Now().UnixNano(), n.logged.Load()
	if now-last < int64(refusalPause) || !n.logged.CompareAndSwap(last, now) {
		n.silent.Add(1)
		return
	}
	n.logger.WarnContext(ctx, "identity of the hub's request refused", slog.String("reason", refused.message),
		slog.Int64("more", n.silent.Swap(0)))
}
