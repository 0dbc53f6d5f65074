// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// errorEvery is the least time between two lines about errors of the OpenTelemetry SDK. Exporters
// fail every few seconds while a collector is away.
const errorEvery = time.Minute

// errorLog logs the SDK's own errors, such as exporters' errors, at most one a minute. It
// implements otel.ErrorHandler.
type errorLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	last    time.Time // when a line was written
	omitted int       // errors since then
}

// Handle implements otel.ErrorHandler.
func (l *errorLog) Handle(err error) {
	omitted, isDue := l.count(time.Now())
	if !isDue {
		return
	}
	l.logger.WarnContext(context.Background(), "telemetry not exported", slog.Any("error", err), slog.Int("omitted", omitted))
}

// count counts an error, and reports whether to log it, with the number of suppressed ones.
func (l *errorLog) count(now time.Time) (omitted int, isDue bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < errorEvery {
		l.omitted++
		return 0, false
	}
	omitted, l.omitted, l.last = l.omitted, 0, now
	return omitted, true
}
