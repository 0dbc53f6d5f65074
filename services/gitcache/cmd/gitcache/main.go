// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command gitcache mirrors upstream repositories for the hub.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/memlimit"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/gitcache"
)

func main() {
	memlimit.Keep(memlimit.Root)
	var (
		cfg    gitcache.Config
		health serve.Probe
	)
	app.Main("gitcache", &cfg, func(ctx context.Context) error { return gitcache.Run(ctx, cfg) },
		app.Command{Name: "health", Config: &health, Run: health.Run})
}
