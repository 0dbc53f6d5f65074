// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The kinds of requests that have connections of their own. An API server allows some 100 requests at once on a connection of
// HTTP/2, and more than those wait in the client, where nobody sees them: short calls must never wait for watches.
const (
	legShort   = "short"
	legWatch   = "watch"
	legUpgrade = "upgrade"
	// Those to services of the cluster, and the upgraded ones among them.
	legService        = "service"
	legServiceUpgrade = "service-upgrade"
)

// legLimit is how many requests of one kind may be under way, over all connections to the hub.
const legLimit = 2 * maxStreams

// leg is the way to a server for one kind of requests.
type leg struct {
	kind      string
	transport http.RoundTripper
	active    atomic.Int64
}

func newLeg(kind string, transport http.RoundTripper) *leg {
	return &leg{kind: kind, transport: transport}
}

// enter reports whether there is room for one more. Who enters leaves.
func (l *leg) enter() bool {
	if l.active.Add(1) > legLimit {
		l.active.Add(-1)
		return false
	}
	return true
}

func (l *leg) leave() { l.active.Add(-1) }

// legs are the ways to one server.
type legs struct {
	short   *leg
	endless *leg
	upgrade *leg
}

// pick returns the way for a request.
func (l legs) pick(r *http.Request) *leg {
	switch {
	case r.Header.Get(headerUpgrade) != "":
		return l.upgrade
	case isEndless(r):
		return l.endless
	}
	return l.short
}

// isEndless reports whether the answer goes on until somebody ends it: a watch, or a log that is followed.
func isEndless(r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "watch") && !strings.Contains(r.URL.RawQuery, "follow") {
		return false
	}
	query := r.URL.Query()
	return isTrue(query, "watch") || isTrue(query, "follow")
}

// isTrue reads a parameter as the Kubernetes API does, to which everything is true but these words.
func isTrue(query url.Values, parameter string) bool {
	value := query.Get(parameter)
	return query.Has(parameter) && value != "0" && !strings.EqualFold(value, "false")
}

// observe exports how many requests are under way, by their kind.
func observe(meter metric.Meter, all ...*leg) error {
	if meter == nil {
		return nil
	}
	_, err := meter.Int64ObservableUpDownCounter("leat.uplink.requests.active",
		metric.WithUnit("{request}"), metric.WithDescription("Requests of people under way, by the kind of connection that they use."),
		metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
			for _, l := range all {
				observer.Observe(l.active.Load(), metric.WithAttributes(attribute.String("leat.connection.kind", l.kind)))
			}
			return nil
		}))
	return err
}

func orDefault(value, fallback time.Duration) time.Duration {
	if value == 0 {
		return fallback
	}
	return value
}
