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
	"fmt"

	"golang.org/x/sync/errgroup"

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
		Kubeconfig: cfg.Kubeconfig, Namespace: cfg.Namespace, UserAgent: "leat-agent/" + cfg.version(), Logger: tel.Logger(),
	})
	if err != nil {
		return err
	}
	health := serve.NewHealth()
	replica := &replica{cfg: cfg, telemetry: tel, cluster: cluster}
	candidate := replica.candidate()
	if cfg.LeaderElection {
		health.Register("takeover", candidate.Ready)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serve.Run(ctx, serve.Params{
			Config: cfg.Serve, Public: serve.NewInternal(serve.InternalParams{Health: health, Telemetry: tel}), Logger: tel.Logger(),
		})
	})
	group.Go(func() error { return serveProfiles(ctx, cfg.DebugAddr, tel.Logger()) })
	group.Go(func() error {
		do := func(ctx context.Context) error { return replica.work(ctx, health) }
		if !cfg.LeaderElection {
			return do(ctx)
		}
		candidate.Await(ctx)
		return lead(ctx, cfg, cluster, do)
	})
	return group.Wait()
}
