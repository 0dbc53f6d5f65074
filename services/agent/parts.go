// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/contract/cas/casdisk"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/instrument"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/renderworker"
	"github.com/leatdev/leat/services/agent/internal/api"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/metrics"
	"github.com/leatdev/leat/services/agent/internal/overview"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reception"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/reconcile/execute"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// parts are the running parts, and the parts of the tunnel.
type parts struct {
	cfg       Config
	telemetry *telemetry.Telemetry
	cluster   *kube.Client
	watches   *kube.Watches
	store     *casdisk.Store
	plans     *control.Plans
	reports   *control.Reports
	describer *control.Describer
	summary   *overview.Summary // nil: the cluster view is off
	workers   *renderworker.Pool
	engine    *reconcile.Engine
	metrics   *metrics.Source
	uplink    *uplink.Uplink
	reception *reception.Reception // nil: the agent dials the hub
	identity  *control.Identity
	configs   *control.Configs
	given     *control.Given
}

// run runs every part until ctx is done or one of them fails.
func (p *parts) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_ = p.store.Run(ctx, nil) // returns only why ctx ended
		return nil
	})
	group.Go(func() error { return p.plans.Run(ctx, func(plan plan.Plan) { p.adopt(ctx, plan) }) })
	group.Go(func() error { return p.watches.Run(ctx, p.engine) })
	for _, part := range []func(context.Context) error{p.reports.Run, p.engine.Run, p.connect, p.describer.Run} {
		group.Go(func() error { return part(ctx) })
	}
	if p.summary != nil {
		group.Go(func() error {
			return p.cluster.Overview(ctx, kube.OverviewParams{Summary: p.summary, Back: p.describer.Back})
		})
	}
	if !p.cfg.LocalIdentity {
		group.Go(func() error { return p.identity.KeepIdentity(ctx, p.cluster.Keep()) })
	}
	return group.Wait()
}

// adopt has everything work on a new plan. It returns at once.
func (p *parts) adopt(ctx context.Context, plan plan.Plan) {
	p.configs.Retain(ctx, plan)
	p.given.Retain(ctx, plan)
	if err := p.telemetry.SetLevel(plan.Settings.LogLevel); err != nil {
		p.telemetry.Logger().WarnContext(ctx, "ignoring unknown log level from hub", slog.Any("error", err))
	}
	p.describer.SetHubLock(plan.Settings.LockDown)
	p.metrics.SetService(plan.Settings.Metrics)
	p.engine.SetPlan(plan)
}

// close ends what holds the disk or other processes. It is called after run.
func (p *parts) close() error {
	p.workers.Close()
	return p.store.Close()
}

// connect holds the tunnel open, whichever side opens it.
func (p *parts) connect(ctx context.Context) error {
	if p.reception == nil {
		return p.uplink.Run(ctx)
	}
	listener := p.cfg.TunnelListener
	if listener == nil {
		var err error
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", p.cfg.ListenTunnelAddr); err != nil {
			return fmt.Errorf("listen for the hub: %w", err)
		}
	}
	p.telemetry.Logger().InfoContext(ctx, "waiting for the hub to dial", slog.String("address", listener.Addr().String()))
	return p.reception.Run(ctx, listener)
}

// assemble makes every part and connects them. Nothing runs yet.
func assemble(cfg Config, tel *telemetry.Telemetry, cluster *kube.Client) (*parts, error) {
	logger := tel.Logger()
	caPEM, err := rpc.ReadCA(cfg.HubCAFile)
	if err != nil {
		return nil, err
	}
	var home *reception.Home
	if cfg.dialled() {
		home = new(reception.Home)
	}
	me, hub, err := connectHub(cfg, tel, cluster, caPEM, home)
	if err != nil {
		return nil, err
	}
	service := distributorv1connect.NewDistributorServiceClient(hub.HTTP, hub.BaseURL, hub.Options...)

	configs, err := control.OpenConfigs(control.ConfigParams{Dir: cfg.DataDir, Hub: service, Identity: me, Logger: logger})
	if err != nil {
		return nil, err
	}
	fingerprints, err := control.OpenFingerprints(control.FingerprintParams{Dir: cfg.DataDir, Identity: me, Logger: logger})
	if err != nil {
		return nil, err
	}
	given, err := control.OpenGiven(control.GivenParams{Dir: cfg.DataDir, Identity: me, Logger: logger})
	if err != nil {
		return nil, err
	}
	lock, err := cfg.lock()
	if err != nil {
		return nil, err
	}
	p := &parts{cfg: cfg, telemetry: tel, cluster: cluster, watches: cluster.Watches(), identity: me, configs: configs, given: given}
	p.plans = control.NewPlans(control.PlanParams{
		Dir: cfg.DataDir, Hub: service, Identity: me, Logger: logger, Answers: func() { p.engine.HubAnswers() },
		Leave: hub.HTTP.CloseIdleConnections,
	})
	p.reports = control.NewReports(control.ReportParams{Hub: service, Identity: me, Logger: logger})
	if cfg.ClusterView {
		p.summary = overview.NewSummary()
	}
	p.describer = control.NewDescriber(control.DescriberParams{
		Reports: p.reports, Summary: p.summary, Version: cluster.Version, AgentVersion: cfg.version(), Capabilities: capabilities(cfg), Lock: lock,
		Logger: logger,
	})
	lastGood := control.NewLastGood(p.reports)
	observer, err := observe(tel)
	if err != nil {
		return nil, err
	}
	p.store, err = casdisk.Open(casdisk.Config{
		Dir: cfg.bundleDir(), MaxBytes: int64(cfg.CacheSize), Logger: logger,
		Pinned: func(d digest.Digest) bool { return p.plans.Pinned(d) || lastGood.Pinned(d) },
	})
	if err != nil {
		return nil, fmt.Errorf("open bundle store: %w", err)
	}
	bundles, err := control.OpenBundles(control.BundleParams{
		Dir: cfg.DataDir, BaseURL: hub.BaseURL, HTTP: hub.HTTP, Store: p.store, Yield: lastGood.Yield, Telemetry: tel,
		Recheck: cfg.RefreshInterval / 2, // each refresh, which comes after three quarters of it at least, is to look
	})
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	limits := render.LimitsWithin(renderworker.Container())
	p.workers = renderworker.NewPool(cfg.Render, limits)
	memo, err := render.NewMemo(p.workers, limits)
	if err == nil {
		err = measureRenders(tel, memo)
	}
	if err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	p.engine = reconcile.New(reconcile.Params{
		Render: render.Split{Limits: limits, Others: memo}, Facts: cluster.Facts(), Generated: cluster.Generated(),
		Cluster: cluster, Self: kube.Self{Client: cluster}.Ask, Bundles: bundles, Configs: configs, Inventories: cluster.Inventories(), Reporter: lastGood, Watches: p.watches,
		Fingerprints: fingerprints, Given: given, Namespace: cfg.namespace(), Lock: lock,
		Owner: me.ClusterUID, Observer: observer, Logger: logger,
		Tracer:   tel.Tracer("github.com/leatdev/leat/services/agent/internal/reconcile"),
		Settings: reconcile.Settings{Workers: cfg.Workers, Refresh: cfg.RefreshInterval, ApplyTimeout: cfg.ApplyTimeout},
	})
	if p.uplink, err = newUplink(p, me, caPEM); err != nil {
		return nil, errors.Join(err, p.store.Close())
	}
	if home != nil {
		p.reception = reception.New(reception.Params{Identity: me, Tunnel: p.uplink, Home: home, Logger: logger})
	}
	return p, nil
}

// connectHub makes the agent's identity and the client that uses it. Where there is a home, all
// calls go over it.
func connectHub(cfg Config, tel *telemetry.Telemetry, cluster *kube.Client, caPEM []byte, home *reception.Home) (*control.Identity, rpc.Client, error) {
	params := rpc.ClientParams{BaseURL: cfg.HubURL, Telemetry: tel, IsOutside: true, CAPEM: caPEM}
	if home != nil {
		params.BaseURL, params.Transport = "http://hub", home
	}
	anonymous, err := rpc.NewClient(params)
	if err != nil {
		return nil, rpc.Client{}, fmt.Errorf("make hub client: %w", err)
	}
	keys, err := identity.ParseHubKeys(cfg.HubKeys)
	if err != nil {
		return nil, rpc.Client{}, fmt.Errorf("read keys of the hub: %w", err)
	}
	if home == nil {
		keys = nil
	}
	me, err := control.OpenIdentity(control.IdentityParams{
		Dir: cfg.DataDir, JoinToken: cfg.JoinToken.Reveal(), ClusterName: cfg.Cluster, KubernetesUID: cluster.Keep().UID, Logger: tel.Logger(),
		HubKeys: keys, FetchHubKeys: func(ctx context.Context) ([]ed25519.PublicKey, error) { return fetchHubKeys(ctx, anonymous) },
		Hub: distributorv1connect.NewDistributorServiceClient(anonymous.HTTP, anonymous.BaseURL, anonymous.Options...),
	})
	if err != nil {
		return nil, rpc.Client{}, err
	}
	params.Tokens = me
	hub, err := rpc.NewClient(params)
	if err != nil {
		return nil, rpc.Client{}, fmt.Errorf("make hub client: %w", err)
	}
	return me, hub, nil
}

// maxKeySet bounds the size of the hub's key set.
const maxKeySet = 64 << 10

func fetchHubKeys(ctx context.Context, hub rpc.Client) ([]ed25519.PublicKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, hub.BaseURL+"/.well-known/jwks.json", nil)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of the hub: %w", err)
	}
	response, err := hub.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch keys of the hub: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet))
	if err != nil {
		return nil, fmt.Errorf("fetch keys of the hub: %w", err)
	}
	return identity.ParseKeySet(content)
}

// newUplink makes the tunnel connection and what answers on it.
func newUplink(p *parts, me *control.Identity, caPEM []byte) (*uplink.Uplink, error) {
	logger := p.telemetry.Logger()
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: p.telemetry, Logger: logger, Trusted: true,
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := p.cluster.Endpoint()
	if err != nil {
		return nil, err
	}
	services, err := serviceParams(p, endpoint.Roots)
	if err != nil {
		return nil, err
	}
	p.metrics = newMetrics(p.cfg, p.engine, services)
	agents := http.NewServeMux()
	agents.Handle(agentv1connect.NewAgentServiceHandler(api.New(p.engine, p.metrics, logger), server.Options()...))
	handler, err := newHandler(p, endpoint, services, api.Subjects(agents))
	if err != nil {
		return nil, err
	}
	return uplink.New(uplink.Params{
		URL: p.cfg.tunnelURL(me.TunnelURL), Tokens: me.ForTunnel(), CAPEM: caPEM, Transports: p.cfg.transports(), Version: p.cfg.version(), Logger: logger,
		Handler: uplink.Traced(handler, uplink.TraceParams{Tracer: p.telemetry.Tracer("agent"), Propagator: p.telemetry.Propagator()}),
	})
}

// newHandler makes what answers people's requests.
func newHandler(p *parts, server kube.Endpoint, params uplink.ServiceParams, agents http.Handler) (http.Handler, error) {
	upgrades, err := server.Authenticate(uplink.NewUpgrader(uplink.UpgraderParams{
		Dial: server.Dial, TLS: server.TLS, Proxy: server.Proxy,
	}))
	if err != nil {
		return nil, fmt.Errorf("authenticate upgrades: %w", err)
	}
	services, err := uplink.NewServices(params)
	if err != nil {
		return nil, err
	}
	people, err := uplink.NewPeople(p.cfg.AllowedUsers, p.cfg.AllowedGroups)
	if err != nil {
		return nil, err
	}
	return uplink.NewHandler(uplink.HandlerParams{
		APIServer: server.Base, Transport: server.Transport, Watches: server.Watches, Upgrades: upgrades, Services: services,
		Agent: agents, Logger: p.telemetry.Logger(), Meter: p.telemetry.Meter("agent"), StallTimeout: p.cfg.StallTimeout,
		People: people,
	})
}

// observe records how long runs take, in all and by stage. The service's name stays out of the
// metric: there are too many.
func observe(tel *telemetry.Telemetry) (reconcile.Observer, error) {
	set := instrument.New(tel.Meter("agent"))
	duration := set.Float64Histogram("leat.reconcile.duration", "s",
		"How long runs of services take, by leat.reconcile.stage: run, the whole; render, downloads included; apply; prune; wait, for health, hooks and objects that go. "+
			"By outcome: ok, or failed with error.type, in which stage and run have it.",
		0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
	objects := set.Int64Counter("leat.reconcile.objects", "{object}",
		"Objects that runs came to, by leat.object.result: applied, or kept because nothing of them differed from what was applied last, which costs the API server nothing.")
	applied := metric.WithAttributeSet(attribute.NewSet(attribute.String("leat.object.result", "applied")))
	kept := metric.WithAttributeSet(attribute.NewSet(attribute.String("leat.object.result", "kept")))
	return func(ctx context.Context, took time.Duration, spent execute.Spent, problem *reason.Problem) {
		objects.Add(ctx, int64(spent.Applied), applied)
		objects.Add(ctx, int64(spent.Kept), kept)
		record := func(stage string, took time.Duration, isFailed bool) {
			attributes := []attribute.KeyValue{attribute.String("leat.reconcile.stage", stage), attribute.String("outcome", "ok")}
			if isFailed {
				attributes[1] = attribute.String("outcome", "failed")
				attributes = append(attributes, attribute.String(telemetry.KeyErrorType, problem.Reason.String()))
			}
			duration.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
		}
		record("run", took, problem != nil)
		for stage, took := range spent.Stages {
			record(string(stage), took, problem != nil && stage == spent.Failed)
		}
	}, set.Err()
}

// measureRenders counts what the renderers were spared.
func measureRenders(tel *telemetry.Telemetry, memo *render.Memo) error {
	set := instrument.New(tel.Meter("agent"))
	set.Int64ObservableCounter("leat.render.outputs", "{output}",
		"Outputs of renderers other than that of plain manifests, by leat.render.result: rendered, whether or not it failed; or remembered from an earlier render of the same content.",
		func(observe func(int64, ...attribute.KeyValue)) {
			rendered, remembered := memo.Counts()
			observe(rendered, attribute.String("leat.render.result", "rendered"))
			observe(remembered, attribute.String("leat.render.result", "remembered"))
		})
	return set.Err()
}
