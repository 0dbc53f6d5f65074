// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command agent runs Leat's agent: one per cluster, it makes the cluster run what the hub says.
package main

import (
	"context"
	"os"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/agent"
)

// mostHeadroom bounds how much memory a busy agent takes beside what it needs.
const mostHeadroom = 32 << 20

func main() {
	agent.ServeRender(os.Args[1:])
	app.KeepHeadroom(mostHeadroom)
	cfg := &agent.Config{}
	app.Main("agent", cfg, func(ctx context.Context) error { return agent.Run(ctx, *cfg) })
}
