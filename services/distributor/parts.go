// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/cas/casdisk"
	"github.com/leatdev/leat/internal/headroom"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/bundles"
	"github.com/leatdev/leat/services/distributor/internal/configs"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/intake"
	"github.com/leatdev/leat/services/distributor/internal/journal"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
	"github.com/leatdev/leat/services/distributor/internal/rotation"
)

// parts are what runs beside the server.
type parts struct {
	keeper  *rotation.Keeper
	view    *fleet.View
	source  *gitsource.Source
	loop    *resolve.Loop
	reports *intake.Queue
	disk    *casdisk.Store
	cache   *bundles.Cache
	records *journal.Journal
	uses    *admission.Uses
	reader  *configs.Reader
	// variants keeps what derived services are given of back ends.
	variants fleet.VariantKeeper
	// notifier notifies other systems.
	notifier *notify.Dispatcher
	// driver drives rollouts.
	driver *rollouts.Driver
	// fleetSources keeps the catalog as fleet sources say.
	fleetSources *fleetsync.Leader
}

// run serves until ctx is done or a part fails. The parts continue during the drain, for the calls
// that are finishing: they end after the server, and presence is stored between the two.
func (p *parts) run(ctx context.Context, server serve.Params) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, work := errgroup.WithContext(work)
	// A part that fails ends the server, too.
	serving, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(work, cancel)()
	defer cancel()
	for _, part := range []func(context.Context) error{
		p.keeper.Run, p.view.MonitorCatalog, p.view.MonitorPresence, p.view.MonitorArrivals, p.reports.Run, p.loop.Run, p.source.MonitorDefinitions, p.records.Run, p.uses.Run, p.reader.Run,
		fleet.NewDeriver(p.view).Run, p.variants.Run, p.settled(p.notifier.Run), p.settled(p.driver.Run), p.fleetSources.Run,
		func(ctx context.Context) error { return p.source.MonitorRepositories(ctx, p.loop.Observe) },
		func(ctx context.Context) error { return keepDisk(ctx, p.disk, p.cache, p.view) },
		func(ctx context.Context) error { return fleet.ReadReports(ctx, p.view) },
		p.grow,
	} {
		group.Go(func() error { return part(work) })
	}
	served := serve.Run(serving, server)
	if err := p.view.StorePresence(work); err != nil {
		server.Logger.WarnContext(ctx, "presence of agents not stored", slog.Any("error", err))
	}
	stop()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		served = errors.Join(served, err)
	}
	return served
}

// grow has Go collect less often until the fleet is in memory.
func (p *parts) grow(ctx context.Context) error {
	defer headroom.Grow()()
	return fleet.AwaitSettled(ctx, p.view)
}

// settled returns a part that begins when derived services are known. It would take others for deleted.
func (p *parts) settled(part func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := fleet.AwaitSettled(ctx, p.view); err != nil {
			return err
		}
		return part(ctx)
	}
}
