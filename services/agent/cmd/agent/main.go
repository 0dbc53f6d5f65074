// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command agent runs Leat's agent: one per cluster, it makes the cluster run the plan of the hub.
package main

import (
	"context"
	"os"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/headroom"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/agent"
)

// growth is by how much a busy agent's heap grows at most between two collections.
const growth = 32 << 20

func main() {
	agent.ServeRender(os.Args[1:])
	headroom.Keep(growth, growth)
	cfg := &agent.Config{}
	health := &serve.Probe{Only: &serve.Config{}}
	app.Main("agent", cfg, func(ctx context.Context) error { return agent.Run(ctx, *cfg) },
		app.Command{Name: "health", Config: health, Run: health.Run})
}
