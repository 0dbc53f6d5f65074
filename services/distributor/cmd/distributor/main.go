// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command distributor hands every cluster its plan and its bundles.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/services/distributor"
)

// The heap grows by this much between collections. A small hub answers half as many questions again per core with the
// lower bound; the upper one is what ten thousand connected agents take beside what they need.
const (
	leastHeadroom = 64 << 20
	mostHeadroom  = 256 << 20
)

func main() {
	app.KeepHeadroom(leastHeadroom, mostHeadroom)
	var cfg distributor.Config
	app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) })
}
