// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package auditotlp sends the audit log to an OpenTelemetry collector. A record counts as written
// when the collector has taken it, which the SDK's own batching would not tell.
package auditotlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// eventName is by what collectors tell audit records from other logs.
const eventName = "leat.audit"

// exportTimeout bounds one batch, with the exporter's own retries.
const exportTimeout = 5 * time.Second

// Output is an [audit.Output]. It is not safe for concurrent use.
type Output struct {
	exporter sdklog.Exporter
	provider *sdklog.LoggerProvider
	logger   log.Logger
	batch    *batch
}

var _ audit.Output = (*Output)(nil)

// New returns an output for the collector that the standard OTEL_ variables name.
func New(ctx context.Context, service string) (*Output, error) {
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("make exporter of audit records: %w", err)
	}
	if autoexport.IsNoneLogExporter(exporter) {
		return nil, errors.New("OTEL_LOGS_EXPORTER is none: audit records would go nowhere; unset it, or leave otlp out of the audit outputs")
	}
	res, err := telemetry.Describe(ctx, service)
	if err != nil {
		return nil, err
	}
	records := &batch{}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(records),
		sdklog.WithAttributeValueLengthLimit(-1), sdklog.WithAttributeCountLimit(-1))
	return &Output{
		exporter: exporter, provider: provider, batch: records,
		logger: provider.Logger("github.com/leatdev/leat/services/" + service + "/audit"),
	}, nil
}

// WriteBatch implements [audit.Output].
func (o *Output) WriteBatch(ctx context.Context, records []*audit.Record) (int, error) {
	o.batch.records = o.batch.records[:0]
	for _, record := range records {
		o.logger.Emit(ctx, convert(record))
	}
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	if err := o.exporter.Export(ctx, o.batch.records); err != nil {
		return 0, fmt.Errorf("export audit records: %w", err)
	}
	return len(records), nil
}

// Close ends the connection to the collector.
func (o *Output) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	return errors.Join(o.provider.Shutdown(ctx), o.exporter.Shutdown(ctx))
}

// convert keeps the names of the fields. Bytes that are not UTF-8 are replaced: one such record
// would make the whole batch unfit for the wire.
func convert(record *audit.Record) log.Record {
	var r log.Record
	r.SetEventName(eventName)
	r.SetTimestamp(record.Time)
	r.SetObservedTimestamp(record.Time)
	r.SetSeverity(log.SeverityInfo)
	r.SetBody(attribute.StringValue("audit"))
	for _, attr := range record.Attrs() {
		r.AddAttributes(attribute.KeyValue{Key: attribute.Key(attr.Key), Value: value(attr.Value)})
	}
	return r
}

func value(v slog.Value) attribute.Value {
	switch v.Kind() {
	case slog.KindBool:
		return attribute.BoolValue(v.Bool())
	case slog.KindInt64:
		return attribute.Int64Value(v.Int64())
	case slog.KindFloat64:
		return attribute.Float64Value(v.Float64())
	default:
	}
	switch value := v.Any().(type) {
	case []audit.FieldChange:
		return attribute.StringValue(valid(audit.ChangesText(value)))
	case []string:
		return texts(value)
	case map[string]string:
		pairs := make([]attribute.KeyValue, 0, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			pairs = append(pairs, attribute.String(valid(key), valid(value[key])))
		}
		return attribute.MapValue(pairs...)
	case map[string][]string:
		pairs := make([]attribute.KeyValue, 0, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			pairs = append(pairs, attribute.KeyValue{Key: attribute.Key(valid(key)), Value: texts(value[key])})
		}
		return attribute.MapValue(pairs...)
	default:
		return attribute.StringValue(valid(v.String()))
	}
}

func texts(texts []string) attribute.Value {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = valid(text)
	}
	return attribute.StringSliceValue(list)
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// batch is a processor that collects the emitted records.
type batch struct {
	records []sdklog.Record
}

// Enabled implements sdklog.Processor.
func (b *batch) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements sdklog.Processor. The trace is the request's, not of the writing goroutine.
func (b *batch) OnEmit(_ context.Context, record *sdklog.Record) error {
	record.WalkAttributes(func(kv attribute.KeyValue) bool {
		if kv.Key != "trace_id" {
			return true
		}
		if id, err := trace.TraceIDFromHex(kv.Value.AsString()); err == nil {
			record.SetTraceID(id)
		}
		return false
	})
	b.records = append(b.records, record.Clone())
	return nil
}

// Shutdown implements sdklog.Processor.
func (b *batch) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (b *batch) ForceFlush(context.Context) error { return nil }
