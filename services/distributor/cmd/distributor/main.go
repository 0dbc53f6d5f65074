// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Command distributor hands every cluster its plan and its bundles. `distributor backup` writes the
// hub's database to a file, and `distributor restore` makes a database of that file. `distributor
// break-glass` lets an administrator in when sign-in fails for everyone. `distributor health`
// reports whether the distributor of the same container is ready.
package main

import (
	"context"

	"github.com/leatdev/leat/internal/contract/expression"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/headroom"
	"github.com/leatdev/leat/internal/runtime/memlimit"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/services/distributor"
)

// A busy hub's heap grows by at most its own size between two collections, or by smallHeadroom if
// that is more, and by at most mostHeadroom. With smallHeadroom, a small hub answers half as many
// questions again per core as with Go's default.
const (
	smallHeadroom = 64 << 20
	mostHeadroom  = 256 << 20
)

func main() {
	headroom.Keep(smallHeadroom, mostHeadroom)
	app.SpareThreads()
	expression.CountTurns()
	memlimit.Keep(memlimit.Root)
	var (
		cfg        distributor.Config
		health     serve.Probe
		backup     distributor.BackupConfig
		restore    distributor.RestoreConfig
		breakGlass distributor.BreakGlassConfig
	)
	app.Main("distributor", &cfg, func(ctx context.Context) error { return distributor.Run(ctx, cfg) },
		app.Command{Name: "health", Config: &health, Run: health.Run},
		app.Command{Name: "backup", Config: &backup, Run: func(ctx context.Context) error { return distributor.Backup(ctx, backup) }},
		app.Command{Name: "restore", Config: &restore, Run: func(ctx context.Context) error { return distributor.Restore(ctx, restore) }},
		app.Command{Name: "break-glass", Config: &breakGlass, Run: func(ctx context.Context) error { return distributor.BreakGlass(ctx, breakGlass) }},
	)
}
