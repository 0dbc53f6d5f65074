// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"log/slog"
)

// NewErrorLog returns the handler of the SDK's own errors.
func NewErrorLog(logger *slog.Logger) interface{ Handle(err error) } {
	return &errorLog{logger: logger}
}

// AtShutdown has Shutdown call stop, as if it stopped an exporter.
func (t *Telemetry) AtShutdown(stop func(context.Context) error) {
	t.shutdown = append(t.shutdown, stop)
}
