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

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/impersonation"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetcalls"
	"github.com/leatdev/leat/services/agent"
)

// startClusters runs a control plane and an agent for each cluster of the plan, or only the agent
// on a user's own cluster.
func (u *up) startClusters(ctx context.Context) error {
	start := u.startKube
	switch {
	case u.Options.Kubeconfig != "":
		return u.join(ctx, u.plan.clusters[0], u.Options.Kubeconfig)
	case u.Options.Kind:
		start = u.startKind
	}
	for _, name := range u.plan.clusters {
		kubeconfig, err := start(ctx, name)
		if err != nil {
			return err
		}
		if err := u.join(ctx, name, kubeconfig); err != nil {
			return err
		}
	}
	return nil
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
	u.clusters = append(u.clusters, report.Cluster{Name: name, Kubernetes: version, Simulated: u.kube != nil})
	return u.startAgent(ctx, name, kubeconfig)
}

func clusterFailure(part, kubeconfig string, err error) error {
	return failure.New(fmt.Sprintf("%s: %v", part, err), "Does kubectl --kubeconfig "+kubeconfig+" work, as an administrator?")
}

func (u *up) startAgent(ctx context.Context, name, kubeconfig string) error {
	dataDir := u.agentDir(name)
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
	response, err := fleetcalls.Get[*fleetv1.Cluster](ctx, u.client, cluster)
	if err != nil {
		return "", fmt.Errorf("look at cluster %s: %w", cluster, err)
	}
	if _, err := os.Stat(dataDir); err == nil && response.GetStatus().GetEnrolled() {
		return "", nil
	}
	token, err := u.client.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		return "", fmt.Errorf("let the agent of %s join: %w", cluster, err)
	}
	return token.GetJoinToken(), nil
}
