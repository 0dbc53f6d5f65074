// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uplink

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The kinds of requests that have connections of their own. An API server allows some 100
// concurrent requests on a connection of HTTP/2, and the client queues all others invisibly. Short
// calls must never wait for watches.
const (
	laneShort   = "short"
	laneWatch   = "watch"
	laneUpgrade = "upgrade"
	// Requests to services of the cluster, and the upgraded ones among them.
	laneService        = "service"
	laneServiceUpgrade = "service-upgrade"
)

// laneLimit is the maximum number of active requests of one kind, over all connections to the hub.
const laneLimit = 2 * maxStreams

// lane is the path to a server for one kind of requests, with its limit.
type lane struct {
	kind      string
	transport http.RoundTripper
	active    atomic.Int64
}

func newLane(kind string, transport http.RoundTripper) *lane {
	return &lane{kind: kind, transport: transport}
}

// enter reports whether one more request may begin. If it may, the caller must call leave.
func (l *lane) enter() bool {
	if l.active.Add(1) > laneLimit {
		l.active.Add(-1)
		return false
	}
	return true
}

func (l *lane) leave() { l.active.Add(-1) }

// lanes are the paths to one server.
type lanes struct {
	short   *lane
	endless *lane
	upgrade *lane
}

// pick returns the path for a request.
func (l lanes) pick(r *http.Request) *lane {
	switch {
	case r.Header.Get(headerUpgrade) != "":
		return l.upgrade
	case isEndless(r):
		return l.endless
	}
	return l.short
}

// isEndless reports whether the answer continues until one side ends it: a watch, or a followed
// log.
func isEndless(r *http.Request) bool {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "watch") && !strings.Contains(r.URL.RawQuery, "follow") {
		return false
	}
	query := r.URL.Query()
	return isTrue(query, "watch") || isTrue(query, "follow")
}

// isTrue parses a parameter as the Kubernetes API does, for which every value is true except these.
func isTrue(query url.Values, parameter string) bool {
	value := query.Get(parameter)
	return query.Has(parameter) && value != "0" && !strings.EqualFold(value, "false")
}

// observe exports the number of active requests by kind.
func observe(meter metric.Meter, all ...*lane) error {
	if meter == nil {
		return nil
	}
	_, err := meter.Int64ObservableUpDownCounter("leat.uplink.requests.active",
		metric.WithUnit("{request}"), metric.WithDescription("Active requests of people, by the kind of connection that they use."),
		metric.WithInt64Callback(func(_ context.Context, observer metric.Int64Observer) error {
			for _, l := range all {
				observer.Observe(l.active.Load(), metric.WithAttributes(attribute.String("leat.connection.kind", l.kind)))
			}
			return nil
		}))
	return err
}
