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

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/access"
	"github.com/leatdev/leat/services/tunnel/internal/api"
	"github.com/leatdev/leat/services/tunnel/internal/audit"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
	"github.com/leatdev/leat/services/tunnel/internal/policy"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// scope names this service's traces and metrics.
const scope = "github.com/leatdev/leat/services/tunnel"

// How long an agent may take to begin HTTP/2, and how long the oldest of too many connections goes on.
const (
	handshakeTimeout = 10 * time.Second
	evictTimeout     = time.Minute
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

	distributor, tokens, err := dialDistributor(cfg, tel)
	if err != nil {
		return err
	}
	defer distributor.HTTP.CloseIdleConnections()
	keys, err := identity.Remember(identity.NewJWKS(identity.JWKSParams{
		URL: distributor.BaseURL + "/.well-known/jwks.json", HTTPClient: distributor.HTTP, Logger: tel.Logger(),
	}), rememberTokens)
	if err != nil {
		return err
	}
	dialer, err := reverse.NewDialer(cfg.connections())
	if err != nil {
		return err
	}
	table := session.NewTable(cfg.limits())
	if err := table.Observe(tel.Meter(scope)); err != nil {
		return err
	}
	accessClient := distributorv1connect.NewAccessServiceClient(distributor.HTTP, distributor.BaseURL, distributor.Options...)
	decisions := policy.NewCache(cfg.decisions(access.New(accessClient)))

	agents := reverse.NewHandler(reverse.Deps{
		Verifier: keys, Table: table, Dialer: dialer, Logger: tel.Logger(),
		HandshakeTimeout: handshakeTimeout, EvictTimeout: evictTimeout,
	})
	people, err := kubeproxy.NewHandler(kubeproxy.Deps{
		Verifier: keys, Access: decisions, Table: table, Sink: cfg.sink(), Logger: tel.Logger(),
		Tracer: tel.Tracer(scope), Meter: tel.Meter(scope), Propagator: tel.Propagator(),
		RecheckInterval: orDefault(cfg.RecheckInterval, defaultRecheckInterval),
	})
	if err != nil {
		return err
	}
	options, err := rpc.HandlerOptions(rpc.ServerParams{
		Telemetry: tel, Logger: tel.Logger(), Verifier: identity.Chain(tokens, keys),
	})
	if err != nil {
		return err
	}
	mux := serve.NewMux(serve.MuxParams{
		Health: serve.NewHealth(), Telemetry: tel, Services: []string{tunnelv1connect.TunnelServiceName},
	})
	mux.Handle(reverse.Path, agents)
	mux.Handle(tunnelv1connect.NewTunnelServiceHandler(api.New(table), options...))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.Run(ctx, cfg.Serve, route(people, mux), tel.Logger()) })
	group.Go(func() error { return drain(ctx, cfg, table) })
	return group.Wait()
}

// dialDistributor returns the client for the distributor and the tokens that it sends.
func dialDistributor(cfg Config, tel *telemetry.Telemetry) (rpc.Client, *identity.ServiceTokens, error) {
	tokens, err := identity.NewServiceTokens([]byte(cfg.ServiceSecret.Reveal()), "tunnel")
	if err != nil {
		return rpc.Client{}, nil, fmt.Errorf("read service secret: %w", err)
	}
	var ca []byte
	if cfg.DistributorCAFile != "" {
		if ca, err = os.ReadFile(cfg.DistributorCAFile); err != nil {
			return rpc.Client{}, nil, fmt.Errorf("read distributor's CA: %w", err)
		}
	}
	client, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: cfg.DistributorURL, Tokens: tokens, Telemetry: tel, CAPEM: ca,
	})
	if err != nil {
		return rpc.Client{}, nil, fmt.Errorf("make distributor's client: %w", err)
	}
	return client, tokens, nil
}

// route sends requests for clusters past the mux, which would clean their paths and redirect.
func route(people, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kubeproxy.Matches(r) {
			people.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// drain waits for the end of ctx and then takes leave of the agents. What is cut off after the timeout is not an error:
// it is what the timeout is for.
func drain(ctx context.Context, cfg Config, table *session.Table) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.drainTimeout())
	defer cancel()
	_ = table.Drain(ctx)
	return nil
}

func (c *Config) sink() audit.Sink {
	if c.AuditOutput != nil {
		return audit.NewLog(c.AuditOutput)
	}
	return audit.NewLog(os.Stdout)
}
