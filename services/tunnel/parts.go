// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/h2"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/memlimit"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/access"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/dialout"
	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/quota"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

const (
	// handshakeTimeout is how long an agent may take to begin HTTP/2.
	handshakeTimeout = 10 * time.Second
	// evictTimeout is how long the oldest of too many connections may finish its requests.
	evictTimeout = time.Minute
	// rememberedTokens is how many tokens are remembered as verified.
	rememberedTokens = 20_000
)

// parts are the running parts. open makes them, and they do not change afterwards.
type parts struct {
	router  *relay.Router
	keeper  *receptive.Keeper
	watches *fanin.Relay // nil: watches are not shared
	people  *kubeproxy.Handler
	agents  *reverse.Handler
	public  http.Handler
	// peers answers other replicas. Nil: this is the only one.
	peers http.Handler
	// internal answers probes and scrapes.
	internal http.Handler

	closers []func() // called in the reverse order
}

// close ends the parts, the last one first. It may be called on parts that open could not complete.
func (p *parts) close() {
	for _, closer := range slices.Backward(p.closers) {
		closer()
	}
}

// open makes the parts, from the ground up. It connects to nothing. The caller closes what it
// returns, an error or not.
func open(ctx context.Context, cfg Config, tel *telemetry.Telemetry) (*parts, error) {
	p := &parts{}
	logger, meter := tel.Logger(), tel.Meter(scope)
	sink, stopAudit, err := openAudit(ctx, cfg.Audit, tel)
	p.closers = append(p.closers, stopAudit)
	if err != nil {
		return p, err
	}

	// The other services, and the keys of tokens.
	own, services, err := cfg.Service.Open(identity.ServiceTunnel)
	if err != nil {
		return p, err
	}
	distributor, anonymous, err := dialDistributor(cfg, own, tel)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, distributor.HTTP.CloseIdleConnections, anonymous.HTTP.CloseIdleConnections)
	keys, err := identity.Remember(identity.NewJWKS(identity.JWKSParams{
		URL: distributor.BaseURL + "/.well-known/jwks.json", Audience: identity.ServiceTunnel, HTTPClient: distributor.HTTP, Logger: logger,
	}), rememberedTokens)
	if err != nil {
		return p, err
	}
	decisions := policy.NewCache(cfg.decisions(access.New(
		distributorv1connect.NewAccessServiceClient(distributor.HTTP, distributor.BaseURL, distributor.Options...))))

	// The way to agents: connections, and routes to other replicas.
	table := session.NewTable(cfg.limits())
	others, err := openReplicas(cfg, own, tel)
	if err != nil {
		return p, err
	}
	p.closers = append(p.closers, others.close)
	p.router = relay.New(others.params(table, logger))
	buffers := cfg.bufferMemory(memlimit.Root)
	budget, err := h2.NewBudget(buffers)
	if err != nil {
		return p, err
	}
	dialer, err := reverse.NewDialer(cfg.connections(), budget, reverse.NewLinks(reverse.LinkParams{
		Replica: others.self.ID, Replicas: p.router.Replicas, Interval: cfg.HeartbeatInterval, Timeout: cfg.HeartbeatTimeout,
		TokenGrace: cfg.TokenGrace, Verifier: keys, Logger: logger,
	}))
	if err != nil {
		return p, err
	}
	gate, err := reverse.NewGate(cfg.MaxConnectsPerSecond)
	if err != nil {
		return p, err
	}
	p.agents = reverse.NewHandler(reverse.Deps{
		Verifier: keys, Table: table, Dialer: dialer, Gate: gate,
		Replica: others.self.ID, Logger: logger, HandshakeTimeout: handshakeTimeout, EvictTimeout: evictTimeout,
	})

	// The agents that the hub dials. Their own calls come back over a second connection.
	enrolled := make(chan struct{}, 1)
	home, err := dialout.NewHome(dialout.HomeParams{
		Distributor: anonymous.BaseURL, Transport: anonymous.HTTP.Transport, Enrolled: enrolled, Budget: budget, Logger: logger,
	})
	if err != nil {
		return p, fmt.Errorf("pass agents' calls on: %w", err)
	}
	reception := access.NewReception(distributorv1connect.NewReceptionServiceClient(distributor.HTTP, distributor.BaseURL, distributor.Options...))
	p.keeper = receptive.New(others.share(receptive.Params{
		Directory: reception, Changed: enrolled, Draining: table.Draining(), Logger: logger,
		Dialer: dialout.New(dialout.Params{
			Voucher: reception, Agents: p.agents, Home: home, AllowLocal: cfg.AllowLocalAgents, Logger: logger,
		}),
	}))

	// The door for people.
	if cfg.Load.WatchFanIn == fanInOn {
		p.watches = fanin.New(fanin.Params{TotalBytes: int(cfg.Load.WatchFanInMemory)})
	}
	ledger := quota.New(quota.Params{
		UserBytes: int64(cfg.Load.MaxBytesPerUser), ClusterBytes: int64(cfg.Load.MaxBytesPerCluster), Window: cfg.Load.QuotaWindow,
	})
	recordings, stopSweep, err := openRecordings(ctx, cfg.Record, logger)
	p.closers = append(p.closers, stopSweep)
	if err != nil {
		return p, err
	}
	p.people, err = kubeproxy.NewHandler(kubeproxy.Deps{
		Verifier: keys, Access: decisions, Router: p.router, Sink: sink, Logger: logger,
		Tracer: tel.Tracer(scope), Meter: meter, Propagator: tel.Propagator(),
		RecheckInterval: cfg.RecheckInterval, StallTimeout: cfg.StallTimeout, FanIn: p.watches, Quota: ledger,
		UploadMemory: buffers / uploadMemoryDivisor, SessionGrace: cfg.sessionGrace(), ClusterDomain: cfg.ClusterDomain, Recorder: recorderOf(recordings),
	})
	if err != nil {
		return p, err
	}
	observed := []func(metric.Meter) error{table.Observe, p.router.Observe, p.keeper.Observe, ledger.Observe}
	if p.watches != nil {
		observed = append(observed, p.watches.Observe)
	}
	if others.store != nil {
		observed = append(observed, func(meter metric.Meter) error {
			return serve.ObserveDependencies(meter, map[string]func(context.Context) error{"redis": others.store.Ping})
		})
	}
	for _, observe := range observed {
		if err := observe(meter); err != nil {
			return p, err
		}
	}

	// The listeners.
	asked := api.New(api.Deps{
		Table: table, Recordings: recordings, Replica: others.self.ID, Peers: others.others, Access: decisions, Sink: sink,
		RecheckInterval: cfg.RecheckInterval,
	})
	if p.public, err = newPublic(cfg, p.people, p.agents, asked, keys, tel); err != nil {
		return p, err
	}
	if others.store != nil {
		if p.peers, err = newPeers(others.self, services, asked, table, sink, tel); err != nil {
			return p, err
		}
	}
	p.internal = newInternal(table, tel)
	return p, nil
}

// dialDistributor returns two clients for the distributor: one with the hub's own token, and one
// without a token for agents' calls, which carry theirs.
func dialDistributor(cfg Config, own *identity.ServiceKey, tel *telemetry.Telemetry) (authorized, anonymous rpc.Client, err error) {
	params := rpc.ClientParams{BaseURL: cfg.DistributorURL, Telemetry: tel}
	if params.CAPEM, err = readCA(cfg.DistributorCAFile); err != nil {
		return authorized, anonymous, fmt.Errorf("read distributor's CA: %w", err)
	}
	if anonymous, err = rpc.NewClient(params); err != nil {
		return authorized, anonymous, fmt.Errorf("make distributor's client: %w", err)
	}
	params.Transport = cfg.DistributorTransport
	if authorized, err = cfg.Service.Dial(own, identity.ServiceDistributor, params); err != nil {
		return authorized, anonymous, fmt.Errorf("make distributor's client: %w", err)
	}
	return authorized, anonymous, nil
}
