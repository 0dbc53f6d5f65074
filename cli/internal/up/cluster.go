// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/impersonation"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/localkube"
	"github.com/leatdev/leat/services/agent"
)

// stopKubeTimeout is how long a control plane may take to stop.
const stopKubeTimeout = 15 * time.Second

// startClusters runs a control plane and an agent for each cluster of the plan, or only the agent
// on a user's own cluster.
func (u *up) startClusters(ctx context.Context) error {
	if u.Options.Kubeconfig != "" {
		return u.join(ctx, u.plan.clusters[0], u.Options.Kubeconfig)
	}
	binaries, err := u.buildKube(ctx)
	if err != nil {
		return err
	}
	u.kubectl = binaries.Kubectl
	for _, name := range u.plan.clusters {
		kubeconfig, err := u.startKube(ctx, name, binaries)
		if err != nil {
			return err
		}
		if err := u.join(ctx, name, kubeconfig); err != nil {
			return err
		}
	}
	return nil
}

// findKube finds the cluster or the binaries to run one, before anything is started.
func (u *up) findKube() (err error) {
	if u.Options.Kubeconfig != "" {
		if _, err := os.Stat(u.Options.Kubeconfig); err != nil {
			return failure.File(err, "The file should describe your own cluster; check --kubeconfig.")
		}
		return nil
	}
	u.kubeSource, err = localkube.FindSource(u.Options.KubeSource)
	if err != nil && u.Options.KubeSource == "" {
		if built, ok := localkube.Built(""); ok {
			u.binaries = &built
			return nil
		}
	}
	if errors.Is(err, localkube.ErrSourceNotFound) {
		return failure.New("no checkout of Leat's source here, to build a Kubernetes control plane from",
			"Run leat up inside a checkout once, name one with --kube-source DIR, or use your own cluster with --kubeconfig FILE.")
	}
	return err
}

func (u *up) buildKube(ctx context.Context) (localkube.Binaries, error) {
	if u.binaries != nil {
		return *u.binaries, nil
	}
	binaries, err := localkube.Build(ctx, localkube.BuildParams{
		SourceDir: u.kubeSource,
		Progress:  func(line string) { u.tell("kubernetes", line) },
	})
	if errors.Is(err, localkube.ErrNoGoTool) {
		return binaries, failure.New("building a Kubernetes control plane needs the go command, and there is none",
			"Install Go from https://go.dev/dl, or use your own cluster with --kubeconfig FILE.")
	}
	return binaries, err
}

// startKube runs a control plane until the group stops it, and returns the path of its
// administrator's kubeconfig.
func (u *up) startKube(ctx context.Context, name string, binaries localkube.Binaries) (string, error) {
	part := "cluster " + name
	u.tell(part, "starting a Kubernetes control plane")
	cp, err := localkube.Start(ctx, localkube.Params{
		Binaries: binaries, DataDir: u.dir.Path("kube", name), Name: name, Simulated: true,
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", part, err)
	}
	u.group.Go(ctx, part, cp.LogDir(), func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-cp.Failed():
		}
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopKubeTimeout)
		defer cancel()
		return errors.Join(cp.Err(), cp.Stop(stopCtx))
	})
	return cp.KubeconfigPath(), nil
}

// join prepares a cluster and runs its agent.
func (u *up) join(ctx context.Context, name, kubeconfig string) error {
	part := "cluster " + name
	granted, version, err := impersonation.Grant(ctx, kubeconfig)
	if err != nil {
		return clusterFailure(part, kubeconfig, err)
	}
	u.tell(part, "Kubernetes "+version+" is ready")
	if u.Options.Kubeconfig != "" {
		u.tell(part, "made the ClusterRoleBindings "+granted)
	}
	u.clusters = append(u.clusters, report.Cluster{Name: name, Kubernetes: version, Simulated: u.Options.Kubeconfig == ""})
	return u.startAgent(ctx, name, kubeconfig)
}

func clusterFailure(part, kubeconfig string, err error) error {
	return failure.New(fmt.Sprintf("%s: %v", part, err), "Does kubectl --kubeconfig "+kubeconfig+" work, as an administrator?")
}

func (u *up) startAgent(ctx context.Context, name, kubeconfig string) error {
	dataDir := u.dir.Path("agent", name)
	joinToken, err := u.joinToken(ctx, name, dataDir)
	if err != nil {
		return err
	}
	kubeconfig, err = filepath.Abs(kubeconfig)
	if err != nil {
		return fmt.Errorf("find kubeconfig: %w", err)
	}
	env := map[string]string{
		"LEAT_AGENT_HUB_URL":     u.hubURL(),
		"LEAT_AGENT_HUB_CA_FILE": u.certs.CA,
		"LEAT_AGENT_DATA_DIR":    dataDir,
		"LEAT_AGENT_KUBECONFIG":  kubeconfig,
	}
	if joinToken != "" {
		env["LEAT_AGENT_JOIN_TOKEN"] = joinToken
	}
	part := "agent " + name
	var cfg agent.Config
	if err := u.configure(part, &cfg, env); err != nil {
		return err
	}
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // health and metrics; the address is not published
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cfg.Serve.Listener = port
	if cfg.Telemetry.LogOutput, err = u.openLog(part); err != nil {
		return errors.Join(err, port.Close())
	}
	u.group.Go(ctx, part, u.dir.Log(part), func(ctx context.Context) error { return agent.Run(ctx, cfg) })
	return nil
}

// joinToken returns a token for an agent that has no identity yet, and "" for one that keeps its
// own.
func (u *up) joinToken(ctx context.Context, cluster, dataDir string) (string, error) {
	response, err := u.client.GetCluster(ctx, &fleetv1.GetClusterRequest{Name: cluster})
	if err != nil {
		return "", fmt.Errorf("look at cluster %s: %w", cluster, err)
	}
	if _, err := os.Stat(dataDir); err == nil && response.GetCluster().GetStatus().GetEnrolled() {
		return "", nil
	}
	token, err := u.client.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		return "", fmt.Errorf("let the agent of %s join: %w", cluster, err)
	}
	return token.GetJoinToken(), nil
}
