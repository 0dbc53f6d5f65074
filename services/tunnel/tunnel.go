// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package tunnel is Leat's auth proxy. Agents hold a connection open to it, and people reach their
// clusters' Kubernetes APIs through it at /clusters/{name}/….
//
// Run is assembled from parts, which open makes in the order in which they depend on each other.
package tunnel

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/kubeproxy"
)

// farewellTimeout is how long the ends of upgraded connections that a drain cut off may take.
const farewellTimeout = 5 * time.Second

// Run serves until ctx ends, and then drains: agents connect elsewhere, running requests may end
// within the drain timeout, watches are closed. It returns nil after a drain.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, "tunnel")
	if err != nil {
		return fmt.Errorf("start telemetry: %w", err)
	}
	defer tel.Shutdown(ctx)
	p, err := open(ctx, cfg, tel)
	defer p.close()
	if err != nil {
		return err
	}
	return p.serve(ctx, cfg, tel)
}

// serve runs all parts until ctx ends, and then drains: first the agents move, then the servers
// end, and last of all the routes.
func (p *parts) serve(ctx context.Context, cfg Config, tel *telemetry.Telemetry) error {
	move := cfg.moveTimeout()
	cfg.Serve.DrainTimeout -= move
	cfg.Serve.PingAfter = cfg.agentSilence()
	cfg.Serve.ReceiveWindow = kubeproxy.UploadWindow
	group, ctx := errgroup.WithContext(ctx)
	routing, stopRouting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRouting()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	group.Go(func() error { return p.router.Run(routing) })
	group.Go(func() error { return p.keeper.Run(routing) })
	if p.peers != nil {
		group.Go(func() error {
			return serve.Run(serving, serve.Params{Config: cfg.peerServe(), Public: p.peers, Logger: tel.Logger()})
		})
	}
	served := make(chan struct{})
	group.Go(func() error {
		defer close(served)
		return serve.Run(serving, serve.Params{
			Config: cfg.Serve, Public: p.public, Internal: p.internal, Logger: tel.Logger(), Meter: tel.Meter(scope),
		})
	})
	group.Go(func() error {
		defer stopRouting()
		<-ctx.Done()
		ending := context.WithoutCancel(ctx)
		draining, cancel := context.WithTimeout(ending, cfg.Serve.DrainTimeout+move)
		defer cancel()
		p.router.Drain(draining, move, func() {
			p.watches.Drain()
			stopServing()
		})
		farewell, cancel := context.WithTimeout(ending, farewellTimeout)
		defer cancel()
		p.people.Wait(farewell)
		p.agents.Wait()
		<-served // until then a caller may ask for a cluster that only other replicas reach
		return nil
	})
	return group.Wait()
}
