// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package clustertest_test

import (
	"context"
	"testing"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/clustertest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	m := clustertest.NewMemory()
	clustertest.Run(t, clustertest.Subject{
		Cluster: m, Inventories: func() inventory.Store { return m.Inventories() },
		Run: func(ctx context.Context, watches func(reconcile.Watches), sink clustertest.Sink) {
			w := m.Watches()
			watches(w)
			go func() { _ = w.Run(ctx, sink) }()
		},
		Create: m.Create, Change: m.Change, Remove: m.Remove,
	})
}
