// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// Log is an [Output], and a [Sink] that writes in line with the request. It writes one JSON object
// a line.
type Log struct {
	prompt func(bytes int64) bool // nil: nothing is known

	mu     sync.Mutex
	w      io.Writer
	buffer []byte
	torn   bool // the last line ends in its middle
}

var (
	_ Sink   = (*Log)(nil)
	_ Output = (*Log)(nil)
	_ Prompt = (*Log)(nil)
)

// NewLog returns a log that writes to w, which need not be safe for concurrent use. Each batch is
// one Write. It is a [Prompt] output where w is, or is a file.
func NewLog(w io.Writer) *Log {
	l := &Log{w: w}
	switch w := w.(type) {
	case *os.File:
		l.prompt = promptFile(w)
	case Prompt:
		l.prompt = w.Prompt
	}
	return l
}

// Prompt implements [Prompt].
func (l *Log) Prompt(bytes int64) bool { return l.prompt != nil && l.prompt(bytes) }

// Write implements [Sink].
func (l *Log) Write(ctx context.Context, record *Record) error {
	_, err := l.WriteBatch(ctx, []*Record{record})
	return err
}

// WriteBatch implements [Output]. A line that could be written in part only does not spoil the next
// one.
func (l *Log) WriteBatch(_ context.Context, records []*Record) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.buffer[:0]
	if l.torn {
		lines = append(lines, '\n')
	}
	ends := make([]int, len(records))
	for i, record := range records {
		lines = appendLine(lines, record)
		ends[i] = len(lines)
	}
	l.buffer = lines
	n, err := l.w.Write(lines)
	if err == nil {
		l.torn = false
		return len(records), nil
	}
	if n > 0 {
		l.torn = lines[n-1] != '\n'
	}
	written := 0
	for written < len(ends) && ends[written]-1 <= n { // all but its end is a whole line, too
		written++
	}
	return written, fmt.Errorf("write audit record: %w", err)
}

// Attrs are the fields of a record, without its time.
func (r *Record) Attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("phase", string(r.Phase)),
		slog.String("id", r.ID),
		slog.String("trace_id", r.TraceID),
		slog.String("subject", r.Subject),
		slog.String("subject_uid", r.SubjectUID),
		slog.String("token_id", r.TokenID),
	}
	if len(r.Claims) > 0 {
		attrs = append(attrs, slog.Any("claims", r.Claims))
	}
	attrs = append(attrs,
		slog.String("cluster", r.Cluster),
		slog.String("method", r.Method),
		slog.String("uri", r.URI),
		slog.String("verb", r.Attributes.Verb),
		slog.String("api_group", r.Attributes.APIGroup),
		slog.String("api_version", r.Attributes.APIVersion),
		slog.String("resource", r.Attributes.Resource),
		slog.String("subresource", r.Attributes.Subresource),
		slog.String("namespace", r.Attributes.Namespace),
		slog.String("name", r.Attributes.Name),
		slog.String("source_address", r.SourceAddress),
		slog.String("user_agent", r.UserAgent),
		slog.Bool("allowed", r.Allowed),
		slog.String("reason", r.Reason.String()),
	)
	if r.Change != nil {
		attrs = append(attrs, r.Change.attrs()...)
	} else {
		attrs = append(attrs,
			slog.String("impersonated_user", r.ImpersonatedUser),
			slog.String("impersonated_uid", r.ImpersonatedUID),
			slog.Any("impersonated_groups", r.ImpersonatedGroups),
			slog.Any("impersonated_extra", r.ImpersonatedExtra),
		)
	}
	switch r.Phase {
	case PhaseDecision, PhaseHop, PhaseChange:
		return attrs
	case PhaseSummary:
		return append(attrs, slog.Int64("count", r.Count), slog.Time("since", r.Since))
	default:
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
