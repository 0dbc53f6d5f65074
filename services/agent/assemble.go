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
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/app"
	"github.com/leatdev/leat/internal/cas/casdisk"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/agent/internal/api"
	"github.com/leatdev/leat/services/agent/internal/control"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/overview"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reception"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
	"github.com/leatdev/leat/services/agent/internal/render"
	"github.com/leatdev/leat/services/agent/internal/renderworker"
	"github.com/leatdev/leat/services/agent/internal/uplink"
)

// assemble makes every part and connects them. Nothing runs yet.
func assemble(cfg Config, tel *telemetry.Telemetry, cluster *kube.Client) (*agent, error) {
	logger := tel.Logger()
	caPEM, err := cfg.hubCA()
	if err != nil {
		return nil, err
	}
	var home *reception.Home
	if cfg.dialled() {
		home = new(reception.Home)
	}
	me, hub, err := connectHub(cfg, tel, caPEM, home)
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
	// The parts refer to each other in a ring: plans → engine → bundles → store → plans. Deliver closes it; it is called
	// only once everything runs.
	a := &agent{cfg: cfg, telemetry: tel, cluster: cluster, watches: cluster.Watches(), identity: me}
	a.plans = control.NewPlans(control.PlanParams{
		Dir: cfg.DataDir, Hub: service, Identity: me, Logger: logger,
		Deliver: func(plan plan.Plan) {
			configs.Retain(context.Background(), plan)
			if err := tel.SetLevel(plan.Settings.LogLevel); err != nil {
				logger.WarnContext(context.Background(), "hub asks for a log level that is none", slog.Any("error", err))
			}
			a.engine.SetPlan(plan)
		},
	})
	a.reports = control.NewReports(control.ReportParams{Hub: service, Identity: me, Logger: logger})
	if cfg.ClusterView {
		a.summary = overview.NewSummary()
	}
	a.describer = control.NewDescriber(control.DescriberParams{
		Reports: a.reports, Summary: a.summary, Version: cluster.Version, AgentVersion: app.Version(), Capabilities: capabilities(cfg), Logger: logger,
	})
	lastGood := control.NewLastGood(a.reports)
	observer, err := observe(tel)
	if err != nil {
		return nil, err
	}
	a.store, err = casdisk.Open(casdisk.Config{
		Dir: cfg.bundleDir(), MaxBytes: int64(cfg.CacheSize), Logger: logger,
		Pinned: func(d digest.Digest) bool { return a.plans.Pinned(d) || lastGood.Pinned(d) },
	})
	if err != nil {
		return nil, fmt.Errorf("open bundle store: %w", err)
	}
	bundles, err := control.OpenBundles(control.BundleParams{
		Dir: cfg.DataDir, BaseURL: hub.BaseURL, HTTP: hub.HTTP, Store: a.store, Yield: lastGood.Yield, Telemetry: tel,
		Recheck: cfg.RefreshInterval / 2, // each refresh, which comes after three quarters of it at least, is to look
	})
	if err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	limits := render.LimitsWithin(renderworker.Container())
	a.workers = renderworker.NewPool(cfg.Render, limits)
	a.engine = reconcile.New(reconcile.Params{
		Render:  render.Engine{Builder: render.NewMemo(a.workers), Limits: limits},
		Cluster: cluster, Bundles: bundles, Configs: configs, Inventories: cluster.Inventories(), Reporter: lastGood, Watches: a.watches,
		Fingerprints: fingerprints,
		Owner:        me.ClusterUID, Observer: observer, Logger: logger,
		Tracer:   tel.Tracer("github.com/leatdev/leat/services/agent/internal/reconcile"),
		Settings: reconcile.Settings{Workers: cfg.Workers, Refresh: cfg.RefreshInterval, ApplyTimeout: cfg.ApplyTimeout},
	})
	if a.uplink, err = newUplink(a, me, caPEM); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	if home != nil {
		a.reception = reception.New(reception.Params{Identity: me, Tunnel: a.uplink, Home: home, Logger: logger})
	}
	return a, nil
}

// connectHub makes the agent's identity and the client that uses it. Where there is a home, all calls go over it.
func connectHub(cfg Config, tel *telemetry.Telemetry, caPEM []byte, home *reception.Home) (*control.Identity, rpc.Client, error) {
	params := rpc.ClientParams{BaseURL: cfg.HubURL, Telemetry: tel, CAPEM: caPEM}
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
		Dir: cfg.DataDir, JoinToken: cfg.JoinToken.Reveal(), Logger: tel.Logger(),
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

// maxKeySet bounds what is read of the hub's key set.
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
func newUplink(a *agent, me *control.Identity, caPEM []byte) (*uplink.Uplink, error) {
	logger := a.telemetry.Logger()
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: a.telemetry, Logger: logger, Trusted: true,
	})
	if err != nil {
		return nil, err
	}
	agents := http.NewServeMux()
	agents.Handle(agentv1connect.NewAgentServiceHandler(api.New(a.engine, logger), server.Options()...))
	handler, err := newHandler(a, api.Subjects(agents))
	if err != nil {
		return nil, err
	}
	return uplink.New(uplink.Params{
		URL: me.TunnelURL, Tokens: me.ForTunnel(), CAPEM: caPEM, Transports: a.cfg.transports(), Version: app.Version(), Logger: logger,
		Handler: uplink.Traced(handler, uplink.TraceParams{Tracer: a.telemetry.Tracer("agent"), Propagator: a.telemetry.Propagator()}),
	})
}

// newHandler makes what answers people's requests.
func newHandler(a *agent, agents http.Handler) (http.Handler, error) {
	server, err := a.cluster.Endpoint()
	if err != nil {
		return nil, err
	}
	upgrades, err := server.Authenticate(uplink.NewUpgrader(uplink.UpgraderParams{
		Dial: server.Dial, TLS: server.TLS, Proxy: server.Proxy,
	}))
	if err != nil {
		return nil, fmt.Errorf("authenticate upgrades: %w", err)
	}
	services, err := newServices(a, server.Roots)
	if err != nil {
		return nil, err
	}
	people, err := uplink.NewPeople(a.cfg.AllowedUsers, a.cfg.AllowedGroups)
	if err != nil {
		return nil, err
	}
	return uplink.NewHandler(uplink.HandlerParams{
		APIServer: server.Base, Transport: server.Transport, Watches: server.Watches, Upgrades: upgrades, Services: services,
		Agent: agents, Logger: a.telemetry.Logger(), Meter: a.telemetry.Meter("agent"), StallTimeout: a.cfg.StallTimeout,
		People: people,
	})
}

// observe records how long runs take. The service's name stays out of the metric: there are too many.
func observe(tel *telemetry.Telemetry) (reconcile.Observer, error) {
	duration, err := tel.Meter("agent").Float64Histogram("leat.apply.duration",
		metric.WithUnit("s"), metric.WithDescription("How long runs of services take."))
	if err != nil {
		return nil, fmt.Errorf("make histogram: %w", err)
	}
	return func(ctx context.Context, took time.Duration, problem *reason.Problem) {
		var attributes []attribute.KeyValue
		if problem != nil {
			attributes = append(attributes, attribute.String(telemetry.KeyErrorType, problem.Reason.String()))
		}
		duration.Record(ctx, took.Seconds(), metric.WithAttributes(attributes...))
	}, nil
}
