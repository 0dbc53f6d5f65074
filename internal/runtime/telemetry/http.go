// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"net"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// ServedRequest returns the attributes of a request that a server has received, by OpenTelemetry's
// conventions for HTTP. The query is not among them: it may hold the commands that people run.
func ServedRequest(r *http.Request, route, path string) []attribute.KeyValue {
	scheme, version := "http", strconv.Itoa(r.ProtoMajor)
	if r.TLS != nil {
		scheme = "https"
	}
	if r.ProtoMajor < 2 {
		version += "." + strconv.Itoa(r.ProtoMinor)
	}
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", r.Method),
		attribute.String("http.route", route),
		attribute.String("url.path", path),
		attribute.String("url.scheme", scheme),
		attribute.String("network.protocol.version", version),
	}
	if host, port, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		attributes = append(attributes, attribute.String("client.address", host))
		if n, err := strconv.Atoi(port); err == nil {
			attributes = append(attributes, attribute.Int("client.port", n))
		}
	}
	return attributes
}
