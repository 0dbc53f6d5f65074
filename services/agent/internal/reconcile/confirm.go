// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// confirmInterval is how often marked inventories are looked for while the guard holds services back.
const confirmInterval = 30 * time.Second

// howToConfirm tells people what lets a service go that the guard keeps. The hub cannot tell them: it no longer knows
// the service.
const howToConfirm = "put it back into the fleet, or mark its inventory: " +
	"kubectl -n leat-system annotate configmap leat-inventory.NAME leat.dev/remove=confirmed"

// confirm lets those services go whose inventory a person has marked.
func (e *Engine) confirm(ctx context.Context) {
	held := map[string]*unit{}
	for _, u := range e.all() {
		if u.held() {
			held[u.name] = u
		}
	}
	if len(held) == 0 {
		return
	}
	records, err := e.params.Inventories.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.params.Logger.WarnContext(ctx, "inventories cannot be read, trying again", slog.Any("error", err))
		}
		return
	}
	for _, record := range records {
		if u := held[record.Service]; u != nil && record.Confirmed {
			e.params.Logger.InfoContext(ctx, "removal confirmed", slog.String("leat.service", u.name))
			u.force()
		}
	}
}

func (u *unit) held() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.order == decide.Hold
}
