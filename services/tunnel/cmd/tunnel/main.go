// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command tunnel runs Leat's auth proxy.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/tunnel"
)

func main() {
	var cfg tunnel.Config
	app.Main("tunnel", &cfg, func(ctx context.Context) error { return tunnel.Run(ctx, cfg) })
}
