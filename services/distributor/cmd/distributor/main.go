// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command distributor hands every cluster its plan and its bundles.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/distributor"
)

// mostHeadroom bounds how much memory a busy hub takes beside what it needs.
const mostHeadroom = 256 << 20

func main() {
	app.KeepHeadroom(mostHeadroom)
	var cfg distributor.Config
	app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
}
