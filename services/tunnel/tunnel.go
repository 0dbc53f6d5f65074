// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel is Leat's auth proxy: agents hold a connection open to it, and people reach their clusters' Kubernetes
// APIs through it at /clusters/{name}/….
package tunnel

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/crossorigin"
	"github.com/leatdev/leat/internal/h2"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/memlimit"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/access"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// scope names this service's traces and metrics.
const scope = "github.com/leatdev/leat/services/tunnel"

// How long an agent may take to begin HTTP/2, and how long the oldest of too many connections goes on.
const (
	handshakeTimeout = 10 * time.Second
	evictTimeout     = time.Minute
	// farewellTimeout is how long the ends of upgraded connections may take that a drain cut off.
	farewellTimeout = 5 * time.Second
	// rememberTokens is how many agents and people may call by turns without a signature being checked again.
	rememberTokens = 20_000
)

// Run serves until ctx ends and then drains: agents are told to connect elsewhere, running requests may end within the
// drain timeout, watches are closed. It returns nil after a drain.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, "tunnel")
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	defer func() { _ = tel.Shutdown(context.WithoutCancel(ctx)) }()

	sink, stopAudit, err := startAudit(ctx, cfg.Audit, tel)
	if err != nil {
		return err
	}
	defer stopAudit()
	own, services, err := cfg.Service.Open(identity.ServiceTunnel)
	if err != nil {
		return err
	}
	distributor, err := dialDistributor(cfg, own, tel)
	if err != nil {
		return err
	}
	defer distributor.HTTP.CloseIdleConnections()
	keys, err := identity.Remember(identity.NewJWKS(identity.JWKSParams{
		URL: distributor.BaseURL + "/.well-known/jwks.json", Audience: identity.ServiceTunnel, HTTPClient: distributor.HTTP, Logger: tel.Logger(),
	}), rememberTokens)
	if err != nil {
		return err
	}
	table := session.NewTable(cfg.limits())
	if err := table.Observe(tel.Meter(scope)); err != nil {
		return err
	}
	others, err := openReplicas(cfg, own, tel)
	if err != nil {
		return err
	}
	defer others.close()
	router := relay.New(others.params(table, tel.Logger()))
	if err := router.Observe(tel.Meter(scope)); err != nil {
		return err
	}
	buffers := cfg.bufferMemory(memlimit.Root)
	budget, err := h2.NewBudget(buffers)
	if err != nil {
		return err
	}
	dialer, err := reverse.NewDialer(cfg.connections(), budget, reverse.NewLinks(reverse.LinkParams{
		Replica: others.self.ID, Replicas: router.Replicas, Interval: cfg.heartbeatInterval(),
		Timeout:    orDefault(cfg.HeartbeatTimeout, defaultHeartbeatTimeout),
		TokenGrace: orDefault(cfg.TokenGrace, defaultTokenGrace), Verifier: keys, Logger: tel.Logger(),
	}))
	if err != nil {
		return err
	}
	accessClient := distributorv1connect.NewAccessServiceClient(distributor.HTTP, distributor.BaseURL, distributor.Options...)
	decisions := policy.NewCache(cfg.decisions(access.New(accessClient)))

	gate, err := reverse.NewGate(orDefault(cfg.MaxConnectsPerSecond, defaultMaxConnects))
	if err != nil {
		return err
	}
	agents := reverse.NewHandler(reverse.Deps{
		Verifier: keys, Table: table, Dialer: dialer, Gate: gate,
		Replica: others.self.ID, Logger: tel.Logger(), HandshakeTimeout: handshakeTimeout, EvictTimeout: evictTimeout,
	})
	dialling, err := newDialling(cfg, tel, distributor, others, table, agents, budget)
	if err != nil {
		return err
	}
	defer dialling.close()
	shared, err := cfg.Load.fanIn(tel.Meter(scope))
	if err != nil {
		return err
	}
	bytes, err := cfg.Load.quota(tel.Meter(scope))
	if err != nil {
		return err
	}
	recordings, err := cfg.Record.open(tel.Logger())
	if err != nil {
		return err
	}
	defer sweep(ctx, recordings)()
	stallTimeout := orDefault(cfg.StallTimeout, defaultStallTimeout)
	people, err := kubeproxy.NewHandler(kubeproxy.Deps{
		Verifier: keys, Access: decisions, Router: router, Sink: sink, Logger: tel.Logger(),
		Tracer: tel.Tracer(scope), Meter: tel.Meter(scope), Propagator: tel.Propagator(),
		RecheckInterval: orDefault(cfg.RecheckInterval, defaultRecheckInterval), StallTimeout: stallTimeout, FanIn: shared, Quota: bytes,
		UploadMemory: buffers / uploadMemoryDivisor,
		SessionGrace: cfg.sessionGrace(), Recorder: recorderOf(recordings),
	})
	if err != nil {
		return err
	}
	server, err := rpc.NewServer(rpc.ServerParams{
		Telemetry: tel, Logger: tel.Logger(), Verifier: keys,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(reverse.Path, agents)
	asked := api.New(api.Deps{
		Table: table, Recordings: recordings, Replica: others.self.ID, Peers: others.others, Access: decisions, Sink: sink,
		RecheckInterval: orDefault(cfg.RecheckInterval, defaultRecheckInterval),
	})
	path, handler := tunnelv1connect.NewTunnelServiceHandler(service{Service: asked, Handler: agents}, server.Options()...)
	mux.Handle(path, server.Guard(reverse.WithDeadlines(handler)))
	mux.Handle(tunnelv1connect.TunnelServiceGetRecordingProcedure, serve.CutStalled(server.Guard(handler), stallTimeout))

	peers, err := others.handler(services, asked, table, sink, tel)
	if err != nil {
		return err
	}
	pages, err := crossorigin.New(cfg.AllowedOrigins)
	if err != nil {
		return err
	}
	return run(ctx, cfg, running{
		peers: peers, router: router, keeper: dialling.keeper, logger: tel.Logger(), meter: tel.Meter(scope),
		internal: serve.NewInternal(serve.InternalParams{
			Health: health(table), Telemetry: tel, Services: []string{tunnelv1connect.TunnelServiceName},
		}),
		handler: kubeproxy.ByHost(cfg.ClusterDomain, pages.Wrap(route(kubeproxy.Matches, people, mux))),
		ending:  shared.Drain, ended: func() {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewellTimeout)
			defer cancel()
			people.Wait(ending)
			agents.Wait()
		},
	})
}

// service is TunnelService: what people ask it, and what agents do.
type service struct {
	*api.Service
	*reverse.Handler
}

// dialDistributor returns the client for the distributor.
func dialDistributor(cfg Config, key *identity.ServiceKey, tel *telemetry.Telemetry) (rpc.Client, error) {
	ca, err := cfg.distributorCA()
	if err != nil {
		return rpc.Client{}, err
	}
	client, err := cfg.Service.Dial(key, identity.ServiceDistributor, rpc.ClientParams{
		BaseURL: cfg.DistributorURL, Telemetry: tel, CAPEM: ca, Transport: cfg.DistributorTransport,
	})
	if err != nil {
		return rpc.Client{}, fmt.Errorf("make distributor's client: %w", err)
	}
	return client, nil
}

func (c *Config) distributorCA() ([]byte, error) {
	if c.DistributorCAFile == "" {
		return nil, nil
	}
	ca, err := os.ReadFile(c.DistributorCAFile)
	if err != nil {
		return nil, fmt.Errorf("read distributor's CA: %w", err)
	}
	return ca, nil
}

// route returns a handler that sends matching requests to matching and not to the mux, which would clean their paths
// and redirect.
func route(matches func(*http.Request) bool, matching, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if matches(r) {
			matching.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
