// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/agents"
	"github.com/leatdev/leat/services/distributor/internal/api/bundlehttp"
	"github.com/leatdev/leat/services/distributor/internal/api/hub"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/delivery/bundles"
	"github.com/leatdev/leat/services/distributor/internal/delivery/costs"
	"github.com/leatdev/leat/services/distributor/internal/delivery/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/delivery/intake"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

const (
	resolveWorkers = 16
	resolveTimeout = time.Minute
	// replayLife is how long a used assertion is remembered: its own minute, and one for clocks that differ.
	replayLife = 2 * identity.AssertionTTL
	// streamsPerCluster is how many streams of its plan a cluster may hold at a replica. One is in use; some may be dead
	// and not noticed yet.
	streamsPerCluster = 16
	// openingBurst is how many streams a cluster may open at once after a quiet time. After that it may open one stream
	// per openingEvery.
	openingBurst = 100
	openingEvery = time.Second
)

// delivery brings content to this replica: where it comes from, who keeps sources resolved, and the
// bundles on the node's disk.
type delivery struct {
	source *gitsource.Source
	loop   *resolve.Loop
	disk   *casdisk.Store
	cache  *bundles.Cache
	deltas *bundles.Deltas
	costs  *costs.Costs
}

// openDelivery opens the caches on the node's disk, and the connection to gitcache, which it does not use yet.
func (s *spine) openDelivery() (*delivery, error) {
	var d delivery
	if err := s.openSource(&d); err != nil {
		return nil, err
	}
	if err := s.openBundles(&d); err != nil {
		return nil, err
	}
	var err error
	if d.costs, err = costs.New(s.tel.Meter(scope)); err != nil {
		return nil, err
	}
	return &d, measure(s.tel, s.view, d.loop, s.plans)
}

// board joins the parts of the view that sources are resolved by.
type board struct {
	*fleet.View
	*fleet.Catalog
	*fleet.BundleBooks
}

func (s *spine) openSource(d *delivery) error {
	ca, err := rpc.ReadCA(s.cfg.GitCache.CAFile)
	if err != nil {
		return err
	}
	gitcache, err := s.cfg.Service.Dial(s.own, identity.ServiceGitCache, rpc.ClientParams{BaseURL: s.cfg.GitCacheURL, Telemetry: s.tel, CAPEM: ca})
	if err != nil {
		return err
	}
	d.source = gitsource.New(gitsource.Params{
		Client:      gitcachev1connect.NewGitCacheServiceClient(gitcache.HTTP, gitcache.BaseURL, gitcache.Options...),
		Leave:       gitcache.HTTP.CloseIdleConnections,
		Definitions: s.store, Logger: s.logger, ReconcileEvery: s.cfg.Intervals.Reconcile,
	})
	d.loop = resolve.New(resolve.Params{
		Board: board{s.view, s.view.Catalog, s.view.BundleBooks}, Upstream: d.source, Store: s.store, Logger: s.logger,
		Workers: resolveWorkers, Timeout: resolveTimeout, ResyncEvery: s.cfg.Intervals.Resync,
	})
	return nil
}

func (s *spine) openBundles(d *delivery) (err error) {
	if d.disk, err = openDisk(s.cfg, s.view, s.tel); err != nil {
		return err
	}
	s.closers = append(s.closers, d.disk.Close)
	if d.cache, err = bundles.NewCache(d.disk, d.source, s.tel); err != nil {
		return err
	}
	s.closing(d.cache.Close)
	d.deltas, err = bundles.OpenDeltas(bundles.DeltaParams{Bundles: d.cache, Dir: filepath.Join(s.cfg.DataDir, "deltas"), Telemetry: s.tel})
	return err
}

// wing serves bundles, and keeps sources resolved.
func (d *delivery) wing(s *spine) wing {
	return wing{
		mount: func(c *calls) {
			c.mux.Handle(bundlehttp.Pattern, bundlehttp.NewHandler(bundlehttp.HandlerParams{
				Cache: d.cache, Deltas: d.deltas, Plans: fleet.Downloads{View: s.view}, Verifier: s.verifier, Logger: s.logger,
				Costs: d.costs,
			}))
		},
		work: []func(context.Context) error{
			d.loop.Run, d.source.MonitorDefinitions, d.costs.Run,
			func(ctx context.Context) error { return d.source.MonitorRepositories(ctx, d.loop.Observe) },
			func(ctx context.Context) error { return keepDisk(ctx, d.disk, d.cache, s.view) },
		},
	}
}

// openAgents serves plans to agents, takes their reports, and lets the tunnel know who may reach which cluster.
func (s *spine) openAgents(persons *people.Service, d *delivery) (wing, error) {
	bootstraps := sqlstore.BootstrapsOf(s.store)
	bootstrap, err := agents.NewBootstrap(agents.BootstrapDeps{Editor: s.editor, Tokens: bootstraps, Journal: s.records, Meter: s.tel.Meter(scope)})
	if err != nil {
		return wing{}, err
	}
	deliveries, err := intake.NewDeliveries(s.tel.Meter(scope))
	if err != nil {
		return wing{}, err
	}
	reports := intake.New(intake.Params{
		Store: sqlstore.GuardedReports{Store: s.store, Members: fleet.Members{View: s.view}, Reached: deliveries.Record},
		Stored: func(ctx context.Context) {
			// Durable changes are seen at once; should the store have gone since, the monitor catches up.
			_ = s.view.Refresh(ctx)
		},
	})
	service := agents.New(agents.Deps{
		View: s.view, Enrolments: s.store.Enrolments(), Bootstrap: bootstrap, Intake: reports,
		Configs: fleet.Configs{View: s.view, Stored: s.store, Derived: sqlstore.Globals{Store: s.store}}, Issuer: s.issuer,
		Replay: admission.NewReplay(replayLife), JoinTokens: s.joinTokens,
		Streams: admission.NewGate(s.cfg.AgentRate), Tokens: admission.NewGate(s.cfg.AgentRate), Joins: admission.NewGate(s.cfg.AgentRate),
		Openings: admission.NewPace(openingEvery, openingBurst),
		Seats:    admission.NewSeats(streamsPerCluster), Departures: admission.NewLine(s.cfg.AgentRate),
		Plans: s.plans, IsCutOff: d.source.IsRefused, Costs: d.costs, TunnelURL: s.cfg.TunnelURL, PollInterval: s.cfg.Intervals.PlanPoll,
	})
	return wing{
		mount: func(c *calls) {
			plans := c.mount(distributorv1connect.NewDistributorServiceHandler(service, c.server.Options()...))
			c.stream(distributorv1connect.DistributorServiceWatchPlanProcedure, plans)
			c.mount(distributorv1connect.NewAccessServiceHandler(hub.NewAccess(s.view, s.uses), c.server.Options()...))
			c.mount(distributorv1connect.NewReceptionServiceHandler(hub.NewReception(s.view, s.issuer), c.server.Options()...))
			c.mount(fleetv1connect.NewBootstrapServiceHandler(people.NewBootstraps(persons, bootstraps), c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{reports.Run},
	}, nil
}
