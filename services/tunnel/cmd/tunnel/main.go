// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command tunnel runs Leat's auth proxy.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/tunnel"
)

// The heap grows by this much between collections. A hub that serves few agents would else collect
// dozens of times a second while people ask; one that grew by more would live in memory that no
// cache of the processor holds. The upper bound is what ten thousand connected agents take beside
// what they need.
const (
	leastHeadroom = 16 << 20
	mostHeadroom  = 96 << 20
)

func main() {
	app.KeepHeadroom(leastHeadroom, mostHeadroom)
	var cfg tunnel.Config
	app.Main("tunnel", &cfg, func(ctx context.Context) error { return tunnel.Run(ctx, cfg) })
}
