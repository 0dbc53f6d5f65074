// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command agent runs Leat's agent: one per cluster, it makes the cluster run what the hub says.
package main

import (
	"context"
	"math"
	"os"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/agent"
)

// leastHeadroom is how much the heap grows between collections at least: people's requests, which pass through, would else have the
// small heap of a small cluster collected many times a second. A larger heap grows as it always does.
const leastHeadroom = 16 << 20

func main() {
	agent.ServeRender(os.Args[1:])
	app.KeepHeadroom(leastHeadroom, math.MaxUint64)
	cfg := &agent.Config{}
	app.Main("agent", cfg, func(ctx context.Context) error { return agent.Run(ctx, *cfg) })
}
