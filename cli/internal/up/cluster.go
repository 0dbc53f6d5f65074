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

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/up/impersonation"
	"github.com/leatdev/leat/cli/internal/up/report"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/services/agent"
)

// findKube checks that there is a cluster or a way to run one, before anything is started. It returns
// nil if the clusters are the user's or kind's.
func findKube(ctx context.Context, b *base) (*kube, error) {
	kind := containers{b}
	switch {
	case b.Options.Kubeconfig != "":
		if _, err := os.Stat(b.Options.Kubeconfig); err != nil {
			return nil, failure.File(err, "The file should describe your own cluster; check --kubeconfig.")
		}
		return nil, nil
	case b.Options.Kind:
		return nil, kind.find()
	}
	if err := kind.forget(); err != nil {
		return nil, err
	}
	return newKube(ctx, b)
}

// clusters are the clusters of this run, each with its agent.
type clusters struct {
	*base

	hub    *hub
	client *client.Client
	kube   *kube // nil if the clusters are the user's or kind's
}

// start runs a control plane and an agent for each name, or only the agent on a user's own cluster.
func (c *clusters) start(ctx context.Context, names []string) ([]report.Cluster, error) {
	run := c.kube.start
	switch {
	case c.Options.Kubeconfig != "":
		run = func(context.Context, string) (string, error) { return c.Options.Kubeconfig, nil }
	case c.Options.Kind:
		run = containers{c.base}.start
	}
	var started []report.Cluster
	for _, name := range names {
		kubeconfig, err := run(ctx, name)
		if err != nil {
			return nil, err
		}
		cluster, err := c.join(ctx, name, kubeconfig)
		if err != nil {
			return nil, err
		}
		started = append(started, cluster)
	}
	return started, nil
}

// join prepares a cluster and runs its agent.
func (c *clusters) join(ctx context.Context, name, kubeconfig string) (report.Cluster, error) {
	part := "cluster " + name
	granted, version, err := impersonation.Grant(ctx, kubeconfig)
	if err != nil {
		return report.Cluster{}, clusterFailure(part, kubeconfig, err)
	}
	c.tell(part, "Kubernetes "+version+" is ready")
	if c.Options.Kubeconfig != "" {
		c.tell(part, "made the ClusterRoleBindings "+granted)
	}
	return report.Cluster{Name: name, Kubernetes: version, Simulated: c.kube != nil}, c.startAgent(ctx, name, kubeconfig)
}

func clusterFailure(part, kubeconfig string, err error) error {
	return failure.New(fmt.Sprintf("%s: %v", part, err), "Does kubectl --kubeconfig "+kubeconfig+" work, as an administrator?")
}

func (c *clusters) startAgent(ctx context.Context, name, kubeconfig string) error {
	dataDir := c.agentDir(name)
	joinToken, err := c.joinToken(ctx, name, dataDir)
	if err != nil {
		return err
	}
	kubeconfig, err = filepath.Abs(kubeconfig)
	if err != nil {
		return fmt.Errorf("find kubeconfig: %w", err)
	}
	env := map[string]string{
		"LEAT_AGENT_HUB_URL":     c.hub.url(),
		"LEAT_AGENT_HUB_CA_FILE": c.hub.certs.CA,
		"LEAT_AGENT_DATA_DIR":    dataDir,
		"LEAT_AGENT_KUBECONFIG":  kubeconfig,
	}
	if joinToken != "" {
		env["LEAT_AGENT_JOIN_TOKEN"] = joinToken
	}
	part := "agent " + name
	var cfg agent.Config
	if err := c.configure(part, &cfg, env); err != nil {
		return err
	}
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // health and metrics; the address is not published
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cfg.Serve.Listener = port
	if cfg.Telemetry.LogOutput, err = c.openLog(part); err != nil {
		return errors.Join(err, port.Close())
	}
	c.group.Go(ctx, part, c.dir.Log(part), func(ctx context.Context) error { return agent.Run(ctx, cfg) })
	return nil
}

// joinToken returns a token for an agent that has no identity yet, and "" for one that keeps its
// own.
func (c *clusters) joinToken(ctx context.Context, cluster, dataDir string) (string, error) {
	response, err := fleetcalls.Get[*fleetv1.Cluster](ctx, c.client, cluster)
	if err != nil {
		return "", fmt.Errorf("look at cluster %s: %w", cluster, err)
	}
	if _, err := os.Stat(dataDir); err == nil && response.GetStatus().GetEnrolled() {
		return "", nil
	}
	token, err := c.client.CreateJoinToken(ctx, &fleetv1.CreateJoinTokenRequest{Cluster: cluster})
	if err != nil {
		return "", fmt.Errorf("let the agent of %s join: %w", cluster, err)
	}
	return token.GetJoinToken(), nil
}
