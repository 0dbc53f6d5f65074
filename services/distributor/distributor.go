// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package distributor is the service that knows what every cluster should run: it keeps the
// catalog, computes plans, hands them and their bundles to agents, and takes their reports.
//
// See README.md for what it needs, and for what happens when that is missing.
package distributor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/internal/auditout"
	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/crossorigin"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/private"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/agents"
	"github.com/leatdev/leat/services/distributor/internal/api/hub"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/api/recorder"
	"github.com/leatdev/leat/services/distributor/internal/api/sessions"
	"github.com/leatdev/leat/services/distributor/internal/backendhook"
	"github.com/leatdev/leat/services/distributor/internal/bundlehttp"
	"github.com/leatdev/leat/services/distributor/internal/bundles"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/encodings"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/intake"
	"github.com/leatdev/leat/services/distributor/internal/journal"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
	"github.com/leatdev/leat/services/distributor/internal/rotation"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
	"github.com/leatdev/leat/services/distributor/internal/standing"
	"github.com/leatdev/leat/services/distributor/internal/tokenexchange"
)

const (
	program = "distributor"
	scope   = "github.com/leatdev/leat/services/distributor"

	// adminUser is who owns the admin token, and adminLabel what that token is called in the
	// database.
	adminUser  = "admin"
	adminLabel = "bootstrap"

	// agentFrame bounds what each agent's connection holds after a report of everything, of which there are ten
	// thousand after a start of a large fleet.
	agentFrame = 16 << 10

	// rolloutWait is how long the answer to an edit waits for its rollout: a person sits before it.
	rolloutWait = 3 * time.Second

	resolveWorkers = 16
	resolveTimeout = time.Minute
	// replayLife is how long a used assertion is remembered: its own minute, and one for clocks
	// that differ.
	replayLife = 2 * identity.AssertionTTL
	// streamsPerCluster is how many streams of its plan a cluster may hold at a replica. One is in
	// use; some may be dead and not noticed yet.
	streamsPerCluster = 16
	// openingBurst is how many streams a cluster may open at once after a quiet time. After that it
	// may open one stream per openingEvery.
	openingBurst = 100
	openingEvery = time.Second
	// streamStallTimeout is how long a watcher may take nothing of its stream.
	streamStallTimeout = 30 * time.Second
	// readReportsAfter is in what time ten thousand agents come back, once the services are derived.
	readReportsAfter = 30 * time.Second
	// rememberTokens is how many agents and people may call by turns without a signature being
	// checked again.
	rememberTokens = 20_000
)

// Run runs one replica until ctx is done, then lets running calls finish.
func Run(ctx context.Context, cfg Config) (err error) {
	config.Complete(cfg.bind)
	if err := cfg.check(); err != nil {
		return err
	}
	settings, err := readSettings(cfg.AgentSettingsFile)
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, program)
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)
	logger := tel.Logger()

	if err := private.Dir(cfg.DataDir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	listener, err := cfg.Serve.Listen()
	if err != nil {
		return err
	}
	cfg.Serve.Listener, cfg.Serve.ReadFrame = listener, agentFrame
	defer func() { _ = listener.Close() }() // closed already where serve.Run came to it
	starting := newStartup(logger)
	internal, err := serve.StartInternal(ctx, serve.Params{Config: cfg.Serve, Internal: newInternal(starting, tel), Logger: logger})
	if err != nil {
		return err
	}
	defer internal.Close()
	store, err := openStore(ctx, cfg, starting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	outputs, err := auditout.Open(ctx, cfg.Audit.Config, auditout.Params{Service: program, Logger: logger, Meter: tel.Meter(scope)})
	if err != nil {
		return err
	}
	defer outputs.Close()
	records := journal.New(journal.Params{
		Store: sqlstore.RecordsOf(store), Outputs: outputs, Describe: people.Describe, Retention: cfg.Audit.Retention, Logger: logger,
	})
	defer records.Close()
	store = store.WithJournal(records)
	if err := ensureAdmin(ctx, cfg, store, starting); err != nil {
		return err
	}
	issuer := new(identity.Issuer)
	stored := sqlstore.NewRotation(store)
	keeper := rotation.New(rotation.Params{Seals: stored, Signing: stored, Issuer: issuer, Policy: cfg.Keys.policy(), Logger: logger})
	if err := errors.Join(starting.untilAvailable(ctx, keeper.Load), keeper.Observe(tel.Meter(scope))); err != nil {
		return err
	}
	own, services, err := cfg.Service.Open(program)
	if err != nil {
		return err
	}

	plans, objects := fanout.NewHub[string](0), fanout.NewHub[catalog.Key](0)
	view := fleet.New(fleet.Params{
		Store: store, Logger: logger, Tracer: tel.Tracer(scope), Plans: plans, Objects: objects,
		Settings: settings, PollInterval: cfg.Intervals.CatalogPoll, ReadReportsAfter: readReportsAfter,
	})
	if err := starting.untilAvailable(ctx, view.Load); err != nil {
		return fmt.Errorf("load catalog: %w", err)
	}
	ca, err := rpc.ReadCA(cfg.GitCacheCAFile)
	if err != nil {
		return err
	}
	gitcache, err := cfg.Service.Dial(own, identity.ServiceGitCache, rpc.ClientParams{BaseURL: cfg.GitCacheURL, Telemetry: tel, CAPEM: ca})
	if err != nil {
		return err
	}
	source := gitsource.New(gitsource.Params{
		Client:      gitcachev1connect.NewGitCacheServiceClient(gitcache.HTTP, gitcache.BaseURL, gitcache.Options...),
		Leave:       gitcache.HTTP.CloseIdleConnections,
		Definitions: store, Logger: logger, ReconcileEvery: cfg.Intervals.Reconcile,
	})
	loop := resolve.New(resolve.Params{
		Board: view, Upstream: source, Store: store, Logger: logger,
		Workers: resolveWorkers, Timeout: resolveTimeout, ResyncEvery: cfg.Intervals.Resync,
	})
	disk, err := openDisk(cfg, view, tel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	cache, err := bundles.NewCache(disk, source, tel)
	if err != nil {
		return err
	}
	defer cache.Close()
	deltas, err := bundles.OpenDeltas(bundles.DeltaParams{Bundles: cache, Dir: filepath.Join(cfg.DataDir, "deltas"), Telemetry: tel})
	if err != nil {
		return err
	}
	encoded, err := encodings.Open(encodings.Config{Dir: filepath.Join(cfg.DataDir, "encodings"), MaxBytes: int64(cfg.Caches.Encodings)})
	if err != nil {
		return err
	}
	if err := measure(tel, view, plans, encoded); err != nil {
		return err
	}
	remembered, err := identity.Remember(issuer.Verifier(identity.ServiceDistributor), rememberTokens)
	if err != nil {
		return err
	}
	reports := intake.New(intake.Params{Store: sqlstore.GuardedReports{Store: store, Members: fleet.Members{View: view}}, Stored: func(ctx context.Context) {
		// What is durable is seen at once; should the store have gone since, the monitor catches
		// up.
		_ = view.Refresh(ctx)
	}})
	verifier := identity.Chain(remembered, services.Verifier([]string{identity.ServiceTunnel}, identity.ServiceDistributor), admission.NewAPITokens(store))
	pages, err := crossorigin.New(cfg.AllowedOrigins)
	if err != nil {
		return err
	}
	signIn, err := cfg.openSignIn(store, view, records, tel)
	if err != nil {
		return err
	}
	exchange, err := cfg.openExchange(view, issuer, records, tel)
	if err != nil {
		return err
	}
	reader, err := cfg.openReader(store, view, tel)
	if err != nil {
		return err
	}
	recording, err := recorder.New(recorder.Params{Journal: records, Limits: fleet.Tokens{View: view}, Logger: logger, Meter: tel.Meter(scope)})
	if err != nil {
		return err
	}
	notifying, err := cfg.openNotifications(store, view, objects, tel)
	if err != nil {
		return err
	}
	hook, err := backendhook.New(backendhook.Params{Backends: sqlstore.NewEntries(store), Logger: logger, Meter: tel.Meter(scope)})
	if err != nil {
		return err
	}
	driver, err := openRollouts(store, view, source, objects, tel)
	if err != nil {
		return err
	}
	fleetSources, err := cfg.openFleetSources(store, view, objects, source, cache, tel)
	if err != nil {
		return err
	}
	joinTokens, uses := admission.NewJoinTokens(store), admission.NewUses(store, logger)
	editor := cfg.editor(store).WithDerivations(fleet.Derivations{View: view})
	bootstrap, err := agents.NewBootstrap(agents.BootstrapDeps{Editor: editor, Tokens: sqlstore.BootstrapsOf(store), Journal: records, Meter: tel.Meter(scope)})
	if err != nil {
		return err
	}
	handler, err := newHandler(handlerParams{
		Telemetry: tel, Verifier: verifier, Issuer: issuer, Keeper: keeper, Recorder: recording, Exchange: exchange, BackendHook: hook, Tester: notifying.tester, Pins: sqlstore.AdmissionsOf(store),
		Bootstraps: sqlstore.BootstrapsOf(store),
		Standing:   notifying.standing,
		Bundles: bundlehttp.NewHandler(bundlehttp.HandlerParams{
			Cache: cache, Encodings: encoded, Deltas: deltas, Plans: fleet.Downloads{View: view}, Verifier: verifier, Logger: logger,
		}),
		People: people.Deps{
			View: view, Editor: editor, Enrolments: store, People: store, Uses: uses, History: store, Grants: store, Bundles: cache,
			Resolver: loop, Mirrors: source, Issuer: issuer, JoinTokens: joinTokens, Audit: records, Configs: sqlstore.NewEntries(store),
			Objects: objects,
			States:  people.States{Rollouts: sqlstore.RolloutsOf(store), Releases: sqlstore.RolloutsOf(store), FleetSources: sqlstore.FleetSourcesOf(store), Mail: sqlstore.NotificationsOf(store)},
			Logger:  logger,
			Settings: people.Settings{
				Version: app.Version(), TunnelURL: cfg.TunnelURL, RedirectURI: cfg.redirectURI(), RolloutWait: cmp.Or(cfg.Intervals.RolloutWait, rolloutWait),
			},
		},
		Sessions: sessions.Deps{View: view, Desk: signIn.desk, Issuer: issuer, Logger: logger, PublicURL: cfg.publicURL()},
		Agents: agents.Deps{
			View: view, Enrolments: store, Bootstrap: bootstrap, Intake: reports, Configs: fleet.Configs{View: view, Stored: store, Derived: sqlstore.Globals{Store: store}}, Issuer: issuer,
			Replay: admission.NewReplay(replayLife), JoinTokens: joinTokens,
			Streams: admission.NewGate(cfg.AgentRate), Tokens: admission.NewGate(cfg.AgentRate), Joins: admission.NewGate(cfg.AgentRate),
			Openings: admission.NewPace(openingEvery, openingBurst),
			Seats:    admission.NewSeats(streamsPerCluster), Departures: admission.NewLine(cfg.AgentRate),
			Plans: plans, TunnelURL: cfg.TunnelURL, PollInterval: cfg.Intervals.PlanPoll,
		},
	})
	if err != nil {
		return err
	}
	starting.finish()
	logger.InfoContext(ctx, "replica started", slog.String("addr", listener.Addr().String()), slog.String("version", app.Version()))
	p := parts{keeper: keeper, view: view, source: source, loop: loop, reports: reports, disk: disk, cache: cache, records: records, uses: uses, reader: reader, variants: fleet.VariantKeeper{View: view, Store: sqlstore.Variants{Store: store}, Logger: logger}, notifier: notifying.dispatcher, driver: driver, fleetSources: fleetSources}
	return p.run(ctx, serve.Params{
		Config: cfg.Serve, Public: signIn.pages.Before(pages.Wrap(handler)), Started: internal, Logger: logger, Meter: tel.Meter(scope),
	})
}

func (c *Config) editor(store catalog.Editable) *catalog.Editor {
	editor := catalog.NewEditor(store).WithPublic(people.SamePublic)
	if c.AllowLocalAgents {
		return editor.WithLocalEndpoints()
	}
	return editor
}

// handlerParams are what newHandler mounts.
type handlerParams struct {
	Telemetry *telemetry.Telemetry
	Verifier  identity.Verifier
	Issuer    *identity.Issuer
	Keeper    *rotation.Keeper
	// Recorder records the calls of people.
	Recorder connect.Interceptor
	Bundles  http.Handler
	// Exchange gives workloads access tokens.
	Exchange http.Handler
	// BackendHook has configuration back ends read.
	BackendHook http.Handler
	Tester      notify.Tester
	Pins        catalog.Pins
	Bootstraps  catalog.Bootstraps
	Standing    *standing.Reader
	People      people.Deps
	Sessions    sessions.Deps
	Agents      agents.Deps
}

// newInternal returns the handler for probes and scrapes. The service is ready once it has read the
// catalog, and stays ready: it can answer from memory and disk without the database and gitcache.
func newInternal(starting *startup, tel *telemetry.Telemetry) http.Handler {
	health := serve.NewHealth()
	health.Register("database", starting.check)
	return serve.NewInternal(serve.InternalParams{
		Health: health, Telemetry: tel,
		Services: []string{
			fleetv1connect.FleetServiceName, fleetv1connect.SessionServiceName, fleetv1connect.KeyServiceName, fleetv1connect.NotifierServiceName,
			fleetv1connect.QueryServiceName,
			fleetv1connect.GlobalServiceServiceName, fleetv1connect.RolloutServiceName,
			fleetv1connect.FleetSourceServiceName, fleetv1connect.BootstrapServiceName,
			distributorv1connect.DistributorServiceName, distributorv1connect.AccessServiceName, distributorv1connect.ReceptionServiceName,
		},
	})
}

// newHandler returns the handler for calls of people, agents and other services.
func newHandler(p handlerParams) (http.Handler, error) {
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: p.Telemetry, Logger: p.People.Logger, Verifier: p.Verifier,
		Public: append(sessions.Public(),
			distributorv1connect.DistributorServiceEnrollProcedure,
			distributorv1connect.DistributorServiceRefreshTokenProcedure,
		),
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mount := func(path string, calls http.Handler) http.Handler {
		mux.Handle(path, server.Guard(calls))
		return calls
	}
	persons := people.New(p.People)
	fleetCalls := mount(fleetv1connect.NewFleetServiceHandler(persons, server.Options(p.Recorder)...))
	mux.Handle(fleetv1connect.FleetServiceWatchProcedure, stream(server, fleetCalls))
	queries := mount(fleetv1connect.NewQueryServiceHandler(people.NewQueries(people.QueriesDeps{People: persons, Standing: p.Standing}), server.Options(p.Recorder)...))
	mux.Handle(fleetv1connect.QueryServiceWatchQueryProcedure, stream(server, queries))
	mount(fleetv1connect.NewKeyServiceHandler(people.NewKeys(people.KeysDeps{People: persons, Keeper: p.Keeper}), server.Options(p.Recorder)...))
	mount(fleetv1connect.NewNotifierServiceHandler(people.NewNotifiers(persons, p.Tester), server.Options(p.Recorder)...))
	mount(fleetv1connect.NewGlobalServiceServiceHandler(people.NewGlobals(persons), server.Options(p.Recorder)...))
	mount(fleetv1connect.NewRolloutServiceHandler(people.NewRollouts(persons, p.Pins), server.Options(p.Recorder)...))
	mount(fleetv1connect.NewFleetSourceServiceHandler(people.NewFleetSources(persons), server.Options(p.Recorder)...))
	mount(fleetv1connect.NewBootstrapServiceHandler(people.NewBootstraps(persons, p.Bootstraps), server.Options(p.Recorder)...))
	path, forSessions := fleetv1connect.NewSessionServiceHandler(sessions.New(p.Sessions), server.Options(p.Recorder)...)
	mux.Handle(path, sessions.Protect(server.Guard(forSessions)))
	plans := mount(distributorv1connect.NewDistributorServiceHandler(agents.New(p.Agents), server.Options()...))
	mux.Handle(distributorv1connect.DistributorServiceWatchPlanProcedure, stream(server, plans))
	mount(distributorv1connect.NewAccessServiceHandler(hub.NewAccess(p.People.View, p.People.Uses), server.Options()...))
	mount(distributorv1connect.NewReceptionServiceHandler(hub.NewReception(p.People.View, p.Issuer), server.Options()...))
	mux.Handle(bundlehttp.Pattern, p.Bundles)
	mux.Handle(tokenexchange.Pattern, p.Exchange)
	mux.Handle(backendhook.Pattern, p.BackendHook)
	mux.Handle(hub.JWKSPattern, hub.KeySet(p.Issuer))
	return mux, nil
}

// stream returns the handler of streams, which are quiet for long: it ends those of which the peer takes nothing, and
// needs small buffers.
func stream(server *rpc.Server, handler http.Handler) http.Handler {
	return serve.SmallFrames(serve.CutStalled(server.Guard(handler), streamStallTimeout))
}
