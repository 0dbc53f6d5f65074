// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command tunnel runs Leat's auth proxy.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/tunnel"
)

// mostHeadroom bounds how much memory a busy hub takes beside what it needs. A heap that grew by
// more between collections would live in memory that no cache of the processor holds.
const mostHeadroom = 96 << 20

func main() {
	app.KeepHeadroom(mostHeadroom)
	var cfg tunnel.Config
	app.Main("tunnel", &cfg, func(ctx context.Context) error { return tunnel.Run(ctx, cfg) })
}
