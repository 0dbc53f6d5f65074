// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"io"
	"slices"

	"github.com/leatdev/leat/internal/runtime/config"
)

// Config sets the logs and exports, and where to. The zero Config logs JSON to standard error from
// level info and exports nothing.
//
// The exporters themselves are configured by the standard OTEL_ variables, which the OpenTelemetry
// libraries read; the fields here only decide whether there is an exporter at all.
type Config struct {
	// LogLevel is debug, info, warn or error. Empty means info.
	LogLevel string
	// LogFormat is json or text. Empty means json.
	LogFormat string
	// LogOutput receives the log. Nil means standard error. Not a flag.
	LogOutput io.Writer
	// Disabled disables all exporters if it is "true": OTEL_SDK_DISABLED.
	Disabled string
	// Endpoint and the three below are the OTLP endpoints. Setting one enables traces and metrics.
	Endpoint        string
	TracesEndpoint  string
	MetricsEndpoint string
	LogsEndpoint    string
	// TracesExporter, MetricsExporter and LogsExporter name an exporter, or none.
	TracesExporter  string
	MetricsExporter string
	LogsExporter    string
}

// Bind binds the fields.
func (c *Config) Bind(s *config.Set) {
	s.Group("Telemetry")
	s.Choice(&c.LogLevel, "log-level", "info", "least severe messages to log", "debug", "info", "warn", "error")
	s.Choice(&c.LogFormat, "log-format", "json", "form of the log", "json", "text")
	s.Env(&c.Endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT", "OTLP endpoint; switches traces and metrics on")
	s.Env(&c.TracesEndpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTLP endpoint for traces alone")
	s.Env(&c.MetricsEndpoint, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTLP endpoint for metrics alone")
	s.Env(&c.LogsEndpoint, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTLP endpoint for logs alone; switches them on")
	s.Env(&c.TracesExporter, "OTEL_TRACES_EXPORTER", "exporter of traces: otlp, console or none")
	s.Env(&c.MetricsExporter, "OTEL_METRICS_EXPORTER", "exporter of metrics beside /metrics: otlp, console or none")
	s.Env(&c.LogsExporter, "OTEL_LOGS_EXPORTER", "exporter of logs beside standard error: otlp, console or none")
	s.Env(&c.Disabled, "OTEL_SDK_DISABLED", "true switches every exporter off")
}

func (c Config) exportsTraces() bool {
	return c.exports(c.TracesExporter, c.Endpoint, c.TracesEndpoint)
}

// exportsMetrics reports whether metrics are exported. It ignores the standard's "prometheus",
// which would open its own port for what /metrics already serves.
func (c Config) exportsMetrics() bool {
	return c.MetricsExporter != "prometheus" && c.exports(c.MetricsExporter, c.Endpoint, c.MetricsEndpoint)
}

// exportsLogs reports whether logs are exported. The common endpoint does not enable it: a
// collector of standard error would receive every line twice.
func (c Config) exportsLogs() bool {
	return c.exports(c.LogsExporter, c.LogsEndpoint)
}

func (c Config) exports(exporter string, endpoints ...string) bool {
	if c.Disabled == "true" || exporter == "none" {
		return false
	}
	return exporter != "" || slices.ContainsFunc(endpoints, func(e string) bool { return e != "" })
}
