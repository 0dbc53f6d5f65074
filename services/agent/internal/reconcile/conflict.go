// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// decided tells what became of an object, to whoever watches and to the log.
func (r *run) decided(ctx context.Context, ref inventory.Ref, what string) {
	r.engine.params.Logger.InfoContext(ctx, "decided about an object of others", slog.String("leat.service", r.service.Name),
		slog.String("object", ref.String()), slog.String("decision", what))
	r.tell(ref, what)
}
