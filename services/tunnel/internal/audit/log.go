// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Log is a [Sink] that writes one JSON object a line.
type Log struct {
	handler slog.Handler
}

var _ Sink = (*Log)(nil)

// NewLog returns a sink that writes to w, which need not be safe for concurrent use.
func NewLog(w io.Writer) *Log {
	return &Log{handler: slog.NewJSONHandler(w, nil)}
}

// Write implements [Sink].
func (l *Log) Write(ctx context.Context, record Record) error {
	entry := slog.NewRecord(record.Time, slog.LevelInfo, "audit", 0)
	entry.AddAttrs(record.attrs()...)
	if err := l.handler.Handle(ctx, entry); err != nil {
		return fmt.Errorf("write audit record: %w", err)
	}
	return nil
}

func (r Record) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("phase", string(r.Phase)),
		slog.String("id", r.ID),
		slog.String("subject", r.Subject),
		slog.String("subject_uid", r.SubjectUID),
		slog.String("token_id", r.TokenID),
		slog.String("cluster", r.Cluster),
		slog.String("method", r.Method),
		slog.String("uri", r.URI),
		slog.String("source_address", r.SourceAddress),
		slog.String("user_agent", r.UserAgent),
		slog.Bool("allowed", r.Allowed),
		slog.String("reason", r.Reason),
		slog.String("impersonated_user", r.ImpersonatedUser),
		slog.Any("impersonated_groups", r.ImpersonatedGroups),
	}
	if r.Phase == PhaseDecision {
		return attrs
	}
	return append(attrs,
		slog.String("connection", r.Connection),
		slog.Int("status", r.Status),
		slog.Int64("bytes_in", r.BytesIn),
		slog.Int64("bytes_out", r.BytesOut),
		slog.Float64("duration_seconds", r.Duration.Seconds()),
		slog.String("outcome", string(r.Outcome)),
	)
}
