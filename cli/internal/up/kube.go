// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/report"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/release"
	"github.com/leatdev/leat/internal/runtime/localkube/supply"
)

// stopKubeTimeout is how long a control plane may take to stop.
const stopKubeTimeout = 15 * time.Second

// kube is shared by the local control planes. The servers of each start first, so that content is
// delivered to it while the files of its nodes are still made.
type kube struct {
	*base

	files *supply.Supply
	nodes []<-chan struct{} // of each control plane; closed when its nodes are ready

	mu      sync.Mutex
	origins []report.Origin // in the order in which the ways were tried
	kubectl string          // path; empty until it was found or made
}

// newKube returns control planes that can be started, or an error if their files cannot be found or made.
func newKube(ctx context.Context, b *base) (*kube, error) {
	if err := checkSystem(runtime.GOOS); err != nil {
		return nil, err
	}
	source, err := kubeSource(b.Options.KubeSource)
	if err != nil {
		return nil, err
	}
	k := &kube{base: b}
	releases, err := k.releases()
	if err != nil {
		return nil, err
	}
	k.files = supply.New(supply.Params{
		Dir: b.Options.Binaries, SourceDir: source, LookPath: b.LookPath, Releases: releases, EtcdData: k.etcdData(),
		Report:   k.tellOrigin,
		Progress: func(line string) { b.tell("kubernetes", line) },
	})
	return k, kubeFailure(k.files.Check(ctx))
}

// checkSystem refuses an operating system on which a control plane could be built, and would not run:
// etcd listens on a socket in a folder, and all parts end by SIGTERM.
func checkSystem(system string) error {
	if system != "windows" {
		return nil
	}
	return failure.New("leat up runs a control plane on Linux and macOS alone",
		"Run it in WSL with the program for Linux, or name your own cluster with --kubeconfig FILE.")
}

// kubeSource returns the folder to build from: that of the checkout that the user names or is in, or
// else the one that leat has itself. It returns "" if this one cannot be written.
func kubeSource(named string) (string, error) {
	source, err := localkube.FindSource(cmp.Or(named, "."))
	switch {
	case err == nil:
		return source, nil
	case !errors.Is(err, localkube.ErrSourceNotFound):
		return "", err
	case named != "":
		return "", failure.Usage("--kube-source: %s is not in a checkout of Leat; without the flag, leat builds the versions that it knows", named)
	}
	source, _ = localkube.OwnSource("") // a cache that cannot be written may still have all files
	return source, nil
}

// releases returns where to download files from, or nil if nothing may be downloaded.
func (k *kube) releases() (supply.Releases, error) {
	if k.Options.Mirror == NoDownload {
		return nil, nil
	}
	store, err := release.New(release.Params{
		Mirror: k.Options.Mirror, Progress: func(line string) { k.tell("kubernetes", line) },
	})
	if err != nil {
		return nil, failure.Usage("--kubernetes-mirror: %v", err)
	}
	return store, nil
}

// etcdData returns the newest version of etcd that wrote the data of earlier starts.
func (k *kube) etcdData() (newest string) {
	for i := range maxClusters {
		if v := localkube.EtcdVersion(k.dir.Path("kube", numbered(demoName, i))); supply.IsNewer(v, newest) {
			newest = v
		}
	}
	return newest
}

// tellOrigin reports one way to get the files of a control plane.
func (k *kube) tellOrigin(o supply.Origin) {
	origin := report.Origin{Way: o.Way, Files: o.Files, Why: o.Why}
	k.mu.Lock()
	k.origins = append(k.origins, origin)
	k.mu.Unlock()
	k.report(report.Event{Kind: report.Progress, Part: "kubernetes", Message: o.String(), Kubernetes: &origin})
}

// kubeFailure explains to a user why there are no files of a control plane.
func kubeFailure(err error) error {
	if missing, ok := errors.AsType[*supply.MissingError](err); ok {
		return failure.New(missing.Error(), "leat builds them where Go is installed: https://go.dev/dl. "+
			"Without it, name a folder that has them with --kubernetes-binaries DIR, run the cluster in containers with --kind, "+
			"or name your own cluster with --kubeconfig FILE.")
	}
	return err
}

// start runs a control plane until the group stops it, and returns the path of its
// administrator's kubeconfig. Its nodes follow.
func (k *kube) start(ctx context.Context, name string) (string, error) {
	part := "cluster " + name
	binaries, err := k.files.Get(ctx, supply.Servers())
	if err != nil {
		return "", kubeFailure(err)
	}
	k.tell(part, "starting a Kubernetes control plane")
	params := localkube.Params{
		Binaries: binaries, DataDir: k.dir.Path("kube", name), Name: name, Simulated: true, NodesLater: true,
	}
	cp, err := localkube.Start(ctx, params)
	if err != nil {
		return "", fmt.Errorf("%s: %w", part, err)
	}
	ready := make(chan struct{})
	k.nodes = append(k.nodes, ready)
	k.group.Go(ctx, part, cp.LogDir(), func(ctx context.Context) error {
		err := k.startNodes(ctx, cp, params)
		if err == nil {
			k.tell(part, "its nodes are ready")
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
func (k *kube) startNodes(ctx context.Context, cp *localkube.ControlPlane, params localkube.Params) (err error) {
	if params.Binaries, err = k.files.Get(ctx, supply.Rest()); err != nil {
		return kubeFailure(err)
	}
	k.mu.Lock()
	k.kubectl = params.Binaries.Kubectl
	k.mu.Unlock()
	return cp.StartNodes(ctx, params)
}

// awaitNodes blocks until the nodes of all control planes are ready, or ctx ends.
func (k *kube) awaitNodes(ctx context.Context) error {
	if k == nil {
		return nil
	}
	for _, ready := range k.nodes {
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
