// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package agent makes one Kubernetes cluster run the plan of the hub.
//
// It enrols, follows its plan, downloads and verifies bundles, renders and applies them, prunes
// what left them, watches health, and reports. It also holds the tunnel open through which people
// reach the cluster. It listens on no port but the one for health and metrics, and one more where
// the hub dials it.
package agent

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/private"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/render/renderworker"
	"github.com/leatdev/leat/services/agent/internal/kube"
)

// ServeRender makes this process a render worker, and does not return, if args ask for one. args
// are the program's arguments without its name. A program that calls Run must call ServeRender
// before anything else: the agent starts the program again to build kustomizations, and cannot
// build any if ServeRender was not called.
func ServeRender(args []string) { renderworker.Serve(args) }

// Run runs the agent until ctx is done; then it returns nil. It changes no state of the process.
func Run(ctx context.Context, cfg Config) error {
	config.Complete(cfg.bind)
	if err := cfg.check(); err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, "agent")
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)
	if err := private.Dir(cfg.DataDir); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	cluster, err := kube.New(kube.Params{
		Kubeconfig: cfg.Kubeconfig, Namespace: cfg.Namespace, UserAgent: "leat-agent/" + app.Version(), Logger: tel.Logger(),
	})
	if err != nil {
		return err
	}
	health := serve.NewHealth()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve.Run(ctx, serve.Params{
			Config: cfg.Serve, Public: serve.NewInternal(serve.InternalParams{Health: health, Telemetry: tel}), Logger: tel.Logger(),
		})
	})
	group.Go(func() error { return serveProfiles(ctx, cfg.DebugAddr, tel.Logger()) })
	group.Go(func() error {
		return lead(ctx, cfg, cluster, func(ctx context.Context) error { return work(ctx, cfg, tel, cluster, health) })
	})
	return group.Wait()
}

// lead runs do, where replicas are to take turns once it is this one's.
func lead(ctx context.Context, cfg Config, cluster *kube.Client, do func(context.Context) error) error {
	if !cfg.LeaderElection {
		return do(ctx)
	}
	replica, err := replicaName(cfg.DataDir)
	if err != nil {
		return err
	}
	return cluster.Lead(ctx, kube.Election{Replica: replica}, func(ctx context.Context, term int) error {
		if err := succeed(cfg.DataDir, term); err != nil {
			return err
		}
		return do(ctx)
	})
}

// work assembles the agent and runs it.
func work(ctx context.Context, cfg Config, tel *telemetry.Telemetry, cluster *kube.Client, health *serve.Health) (err error) {
	if !cfg.LocalIdentity {
		err = restoreIdentity(ctx, cfg.DataDir, cluster.Keep(), tel.Logger())
		if ctx.Err() != nil {
			return nil // being stopped is no failure
		}
		if err != nil {
			return err
		}
	}
	p, err := assemble(cfg, tel, cluster)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	health.Register("plan", p.plans.Ready)
	return p.run(ctx)
}
