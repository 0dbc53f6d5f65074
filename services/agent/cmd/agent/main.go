// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command agent runs Leat's agent: one per cluster, it makes the cluster run what the hub says.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/agent"
)

func main() {
	cfg := &agent.Config{}
	app.Main("agent", cfg, func(ctx context.Context) error { return agent.Run(ctx, *cfg) })
}
