// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command tunnel runs Leat's auth proxy.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/headroom"
	"github.com/leatdev/leat/internal/runtime/memlimit"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/tunnel"
)

// A busy hub's heap grows by at most its own size between two collections, or by smallHeadroom if
// that is more, and by at most mostHeadroom. A heap that grew by more would live in memory that no
// cache of the processor holds.
const (
	smallHeadroom = 24 << 20
	mostHeadroom  = 96 << 20
)

func main() {
	headroom.Keep(smallHeadroom, mostHeadroom)
	memlimit.Keep(memlimit.Root)
	var (
		cfg    tunnel.Config
		health serve.Probe
	)
	app.Main("tunnel", &cfg, func(ctx context.Context) error { return tunnel.Run(ctx, cfg) },
		app.Command{Name: "health", Config: &health, Run: health.Run})
}
