// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package telemetry

import "context"

// AtShutdown has Shutdown call stop, as if it stopped an exporter.
func (t *Telemetry) AtShutdown(stop func(context.Context) error) {
	t.shutdown = append(t.shutdown, stop)
}
