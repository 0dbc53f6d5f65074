// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// How the renewal of a session's claims, or the exchange of a session's token, ended.
const (
	renewalConfirmed = "confirmed"
	renewalEnded     = "ended"
	renewalAway      = "provider_away"

	exchangeOK     = "ok"
	exchangeEnded  = "ended"
	exchangeReused = "token_reused"
	exchangeBusy   = "busy"
	exchangeFailed = "failed"
)

// exchangeBounds are seconds. An exchange is one transaction, and now and then the answer of a
// provider.
var exchangeBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics measure how people sign in and stay signed in. Providers are named, because
// administrators define them, and people are not. It is safe for concurrent use.
type Metrics struct {
	attempts, renewals metric.Int64Counter
	exchanges          metric.Float64Histogram
}

// NewMetrics returns the metrics. live returns how many sessions live, by their clients.
func NewMetrics(meter metric.Meter, live func() map[catalog.SessionClient]int) (*Metrics, error) {
	set := instrument.New(meter)
	m := &Metrics{
		attempts: set.Int64Counter("leat.signin.attempts", "{attempt}",
			"Attempts to sign in with an identity provider that have ended, by provider and outcome; no provider where an answer belongs to no sign-in."),
		renewals: set.Int64Counter("leat.signin.renewals", "{renewal}",
			"Renewals of the claims of sessions, by provider and outcome: confirmed, ended, or provider_away, which changes nothing."),
		exchanges: set.Float64Histogram("leat.signin.exchange.duration", "s",
			"How long exchanges of sessions for access tokens take, by outcome.", exchangeBounds...),
	}
	set.Int64ObservableGauge("leat.signin.sessions", "{session}", "Sessions of people that live, by client: cli, device or browser; each replica counts all of them.",
		func(observe func(int64, ...attribute.KeyValue)) {
			count := live()
			for _, client := range []catalog.SessionClient{catalog.ClientCLI, catalog.ClientDevice, catalog.ClientBrowser} {
				observe(int64(count[client]), attribute.String("client", string(client)))
			}
		})
	return m, set.Err()
}

// Attempted counts an attempt to sign in. provider is the name of a provider of the catalog, or
// empty.
func (m *Metrics) Attempted(ctx context.Context, provider string, outcome Outcome) {
	m.attempts.Add(ctx, 1, metric.WithAttributes(attribute.String("provider", provider), attribute.String("outcome", string(outcome))))
}

func (m *Metrics) renewed(ctx context.Context, provider, outcome string) {
	m.renewals.Add(ctx, 1, metric.WithAttributes(attribute.String("provider", provider), attribute.String("outcome", outcome)))
}

func (m *Metrics) exchanged(ctx context.Context, began time.Time, err error) {
	m.exchanges.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(attribute.String("outcome", exchangeOutcome(err))))
}

func exchangeOutcome(err error) string {
	switch {
	case err == nil:
		return exchangeOK
	case errors.Is(err, ErrEnded):
		return exchangeEnded
	case errors.Is(err, ErrReused):
		return exchangeReused
	case errors.Is(err, ErrBusy):
		return exchangeBusy
	}
	return exchangeFailed
}
