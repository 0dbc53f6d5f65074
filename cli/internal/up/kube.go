// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/internal/localkube/release"
	"github.com/leatdev/leat/internal/localkube/supply"
)

// stopKubeTimeout is how long a control plane may take to stop.
const stopKubeTimeout = 15 * time.Second

// kube is what the local control planes share. The servers of each start first, so that content is
// delivered to it while the files of its nodes are still made.
type kube struct {
	files *supply.Supply
	nodes []<-chan struct{} // of each control plane; closed when its nodes are ready

	mu      sync.Mutex
	origins []report.Origin // in the order in which the ways were tried
	kubectl string          // path; empty until it was found or made
}

// findKube checks that there is a cluster or a way to run one, before anything is started.
func (u *up) findKube(ctx context.Context) error {
	if u.Options.Kubeconfig != "" {
		if _, err := os.Stat(u.Options.Kubeconfig); err != nil {
			return failure.File(err, "The file should describe your own cluster; check --kubeconfig.")
		}
		return nil
	}
	if u.Options.Kind {
		return u.findKind()
	}
	if err := u.leaveKind(); err != nil {
		return err
	}
	source, err := localkube.FindSource(u.Options.KubeSource)
	if err != nil && !errors.Is(err, localkube.ErrSourceNotFound) {
		return err
	}
	releases, err := u.releases()
	if err != nil {
		return err
	}
	u.kube = &kube{}
	u.kube.files = supply.New(supply.Params{
		Dir: u.Options.Binaries, SourceDir: source, LookPath: u.LookPath, Releases: releases, EtcdData: u.etcdData(),
		Report:   u.tellOrigin,
		Progress: func(line string) { u.tell("kubernetes", line) },
	})
	return kubeFailure(u.kube.files.Check(ctx))
}

// releases returns where to download files from, or nil if nothing may be downloaded.
func (u *up) releases() (supply.Releases, error) {
	if u.Options.Mirror == NoDownload {
		return nil, nil
	}
	store, err := release.New(release.Params{
		Mirror: u.Options.Mirror, Progress: func(line string) { u.tell("kubernetes", line) },
	})
	if err != nil {
		return nil, failure.Usage("--kubernetes-mirror: %v", err)
	}
	return store, nil
}

// etcdData returns the newest version of etcd that wrote the data of earlier starts.
func (u *up) etcdData() (newest string) {
	for i := range maxClusters {
		if v := localkube.EtcdVersion(u.dir.Path("kube", numbered(demoName, i))); supply.IsNewer(v, newest) {
			newest = v
		}
	}
	return newest
}

// tellOrigin reports one way to get the files of a control plane.
func (u *up) tellOrigin(o supply.Origin) {
	origin := report.Origin{Way: o.Way, Files: o.Files, Why: o.Why}
	u.kube.mu.Lock()
	u.kube.origins = append(u.kube.origins, origin)
	u.kube.mu.Unlock()
	u.report(report.Event{Kind: report.Progress, Part: "kubernetes", Message: o.String(), Kubernetes: &origin})
}

// kubeFailure explains to a user why there are no files of a control plane.
func kubeFailure(err error) error {
	if missing, ok := errors.AsType[*supply.MissingError](err); ok {
		return failure.New(missing.Error(), "Run leat up inside a checkout of Leat, with Go from https://go.dev/dl, or name one with --kube-source DIR; "+
			"or name the binaries with --kubernetes-binaries DIR, or your own cluster with --kubeconfig FILE.")
	}
	return err
}

// startKube runs a control plane until the group stops it, and returns the path of its
// administrator's kubeconfig. Its nodes follow.
func (u *up) startKube(ctx context.Context, name string) (string, error) {
	part := "cluster " + name
	binaries, err := u.kube.files.Get(ctx, supply.Servers())
	if err != nil {
		return "", kubeFailure(err)
	}
	u.tell(part, "starting a Kubernetes control plane")
	params := localkube.Params{
		Binaries: binaries, DataDir: u.dir.Path("kube", name), Name: name, Simulated: true, NodesLater: true,
	}
	cp, err := localkube.Start(ctx, params)
	if err != nil {
		return "", fmt.Errorf("%s: %w", part, err)
	}
	ready := make(chan struct{})
	u.kube.nodes = append(u.kube.nodes, ready)
	u.group.Go(ctx, part, cp.LogDir(), func(ctx context.Context) error {
		err := u.startNodes(ctx, cp, params)
		if err == nil {
			u.tell(part, "its nodes are ready")
			close(ready)
			select {
			case <-ctx.Done():
			case <-cp.Failed():
			}
		}
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopKubeTimeout)
		defer cancel()
		return errors.Join(err, cp.Err(), cp.Stop(stopCtx))
	})
	return cp.KubeconfigPath(), nil
}

// startNodes gets the remaining files and runs what makes pods Ready. If it fails, the part fails,
// which ends every wait for the nodes.
func (u *up) startNodes(ctx context.Context, cp *localkube.ControlPlane, params localkube.Params) (err error) {
	if params.Binaries, err = u.kube.files.Get(ctx, supply.Rest()); err != nil {
		return kubeFailure(err)
	}
	u.kube.mu.Lock()
	u.kube.kubectl = params.Binaries.Kubectl
	u.kube.mu.Unlock()
	return cp.StartNodes(ctx, params)
}

// awaitNodes blocks until the nodes of all control planes are ready, or ctx ends.
func (u *up) awaitNodes(ctx context.Context) error {
	if u.kube == nil {
		return nil
	}
	for _, ready := range u.kube.nodes {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// shown returns for the summary how the files were found, and the kubectl of their version, which
// is "" if there is none yet.
func (k *kube) shown() (origins []report.Origin, kubectl string) {
	if k == nil {
		return nil, ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.origins, k.kubectl
}
