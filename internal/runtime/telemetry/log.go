// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

// startLogs makes the logger. With an exporter, every record is exported too.
func (t *Telemetry) startLogs(ctx context.Context, cfg Config, service string, res *resource.Resource) error {
	level, err := cfg.level()
	if err != nil {
		return err
	}
	t.configured = level
	t.level.Set(level)
	local, err := cfg.handler(&t.level)
	if err != nil {
		return err
	}
	local = local.WithAttrs([]slog.Attr{slog.String("service.name", service)})
	if !cfg.exportsLogs() {
		t.logger = slog.New(local)
		return nil
	}
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("start logs: %w", err)
	}
	provider := sdklog.NewLoggerProvider(
		sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
	t.shutdown = append(t.shutdown, provider.Shutdown)
	remote := otelslog.NewHandler("github.com/leatdev/leat", otelslog.WithLoggerProvider(provider))
	t.logger = slog.New(slog.NewMultiHandler(local, leveled{Handler: remote, level: &t.level}))
	return nil
}

// SetLevel changes the lowest level that is logged: debug, info, warn or error. Empty restores the
// configured one.
func (t *Telemetry) SetLevel(text string) error {
	level := t.configured
	if text != "" {
		var err error
		if level, err = (Config{LogLevel: text}).level(); err != nil {
			return err
		}
	}
	t.level.Set(level)
	return nil
}

func (c Config) level() (slog.Level, error) {
	var level slog.Level
	if c.LogLevel == "" {
		return level, nil
	}
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return level, fmt.Errorf("start logs: level %q: want debug, info, warn or error", c.LogLevel)
	}
	return level, nil
}

func (c Config) handler(level slog.Leveler) (slog.Handler, error) {
	var output io.Writer = os.Stderr
	if c.LogOutput != nil {
		output = c.LogOutput
	}
	options := &slog.HandlerOptions{Level: level}
	switch c.LogFormat {
	case "", "json":
		return traced{Handler: slog.NewJSONHandler(output, options)}, nil
	case "text":
		return traced{Handler: slog.NewTextHandler(output, options)}, nil
	}
	return nil, fmt.Errorf("start logs: format %q: want json or text", c.LogFormat)
}

// traced adds the ids of the context's span to every record, so that a log line leads to its trace
// and back.
type traced struct {
	slog.Handler

	// ungrouped is the handler from before the first group was opened, and since holds the later
	// attributes and groups: the ids are at the top of a record, whatever groups its logger has.
	// Without a group both are nil.
	ungrouped slog.Handler
	since     []func(slog.Handler) slog.Handler
}

func (h traced) Handle(ctx context.Context, record slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return h.Handler.Handle(ctx, record)
	}
	ids := []slog.Attr{
		slog.String(KeyTraceID, span.TraceID().String()), slog.String(KeySpanID, span.SpanID().String()),
	}
	if h.ungrouped == nil {
		record = record.Clone()
		record.AddAttrs(ids...)
		return h.Handler.Handle(ctx, record)
	}
	handler := h.ungrouped.WithAttrs(ids)
	for _, step := range h.since {
		handler = step(handler)
	}
	return handler.Handle(ctx, record)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	if h.ungrouped == nil {
		return traced{Handler: h.Handler.WithAttrs(attrs)}
	}
	return h.step(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

func (h traced) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	if h.ungrouped == nil {
		h.ungrouped = h.Handler
	}
	return h.step(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

// step repeats on the ungrouped handler what was done to the grouped one.
func (h traced) step(step func(slog.Handler) slog.Handler) slog.Handler {
	return traced{Handler: step(h.Handler), ungrouped: h.ungrouped, since: append(slices.Clip(h.since), step)}
}

// leveled drops records below a level for a handler that has no level of its own.
type leveled struct {
	slog.Handler
	level slog.Leveler
}

func (h leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level.Level() && h.Handler.Enabled(ctx, level)
}

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{Handler: h.Handler.WithAttrs(attrs), level: h.level}
}

func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{Handler: h.Handler.WithGroup(name), level: h.level}
}
