// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command distributor hands every cluster its plan and its bundles.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/distributor"
)

func main() {
	var cfg distributor.Config
	app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
}
