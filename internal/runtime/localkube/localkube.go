// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package localkube builds and runs a real Kubernetes control plane on the loopback interface, for
// tests and for trying Leat out: etcd, kube-apiserver, and, unless only these two are requested,
// kube-controller-manager, kube-scheduler and kwok, which simulates nodes whose pods become Ready
// without running anything.
//
// Build compiles the components once from the pinned modules in tools/kube and caches them. Start
// runs a control plane in a data directory. A later start in the same directory has the same
// objects and certificates and, if it is free, the same port. Any number of control planes can run
// side by side, each in its own directory.
//
//	binaries, err := localkube.Build(ctx, localkube.BuildParams{Progress: show})
//	cp, err := localkube.Start(ctx, localkube.Params{Binaries: binaries, DataDir: dir})
//	defer cp.Stop(ctx)
//
// Tests call kubetest.Start instead. The package imports no library of others, so that its
// users do not link a Kubernetes client.
package localkube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// startTimeout bounds Start. A start takes some seconds; the bound is for very busy machines.
const startTimeout = 3 * time.Minute

// Start runs a control plane and returns when it is ready: the API server
// answers /readyz with ok and, unless p.APIServerOnly or p.NodesLater, all nodes
// are Ready and the default namespace accepts pods. The control plane outlives
// ctx: end it with Stop. After an error nothing is left running.
func Start(ctx context.Context, p Params) (*ControlPlane, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()

	cp, err := open(p)
	if err != nil {
		return nil, fmt.Errorf("open control plane: %w", err)
	}
	if err := cp.start(ctx, p); err != nil {
		cp.kill()
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	for _, process := range cp.processes {
		go cp.watch(process)
	}
	return cp, nil
}

// open creates and locks p.DataDir.
func open(p Params) (*ControlPlane, error) {
	if p.DataDir == "" {
		return nil, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(p.DataDir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, runDir), 0o700); err != nil {
		return nil, err
	}
	held, err := lock(filepath.Join(dir, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("%s is in use: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return &ControlPlane{dir: dir, audit: p.Audit, lock: held, failed: make(chan struct{})}, nil
}

// start runs the components in the order of their dependencies.
func (cp *ControlPlane) start(ctx context.Context, p Params) error {
	files, err := keys.Ensure(cp.path("pki"))
	if err != nil {
		return err
	}
	if _, err := cp.run(cp.etcd(p)); err != nil {
		return err
	}
	if err := cp.startAPIServer(ctx, p, files); err != nil {
		return err
	}
	if p.APIServerOnly {
		return nil
	}
	if err := cp.recordEtcdVersion(ctx); err != nil || p.NodesLater {
		return err
	}
	return cp.startUsers(ctx, p, files)
}

// StartNodes runs, after a Start with p.NodesLater, the components that use the API server. It
// returns when all nodes are Ready and the default namespace accepts pods. p are the parameters of
// Start, with the remaining binaries. After an error the control plane must be stopped.
func (cp *ControlPlane) StartNodes(ctx context.Context, p Params) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cp.restarting.Lock()
	defer cp.restarting.Unlock()
	cp.mu.Lock()
	stopping := cp.stopping
	cp.mu.Unlock()
	const servers = apiServerPlace + 1
	if stopping || len(cp.processes) > servers {
		return errors.New("start nodes: the control plane was stopped, or has nodes")
	}
	files, err := keys.Ensure(cp.path("pki"))
	if err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	err = cp.startUsers(ctx, p, files)
	for _, process := range cp.processes[servers:] {
		go cp.watch(process)
	}
	if err != nil {
		return fmt.Errorf("start nodes: %w", err)
	}
	return nil
}

// startUsers runs the components that use the API server.
func (cp *ControlPlane) startUsers(ctx context.Context, p Params, files keys.Dir) error {
	if err := cp.releaseNodes(ctx); err != nil {
		return err
	}
	if p.Simulated {
		var err error
		if cp.metrics, err = serveMetrics(ctx, cp.client, files); err != nil {
			return err
		}
	}
	nodes, err := cp.kwok(ctx, p)
	if err != nil {
		return err
	}
	for _, c := range []command{cp.controllerManager(p, files), cp.scheduler(p), nodes} {
		if _, err := cp.run(c); err != nil {
			return err
		}
	}
	return cp.startNodes(ctx, max(p.Nodes, 1))
}
