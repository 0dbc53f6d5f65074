// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/kubeconfig"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// execVersion is what kubectl and leat agree on.
const execVersion = kubeconfig.ExecVersion

// Kubeconfig is `leat kubeconfig`.
func Kubeconfig(s *session.Session) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print a kubeconfig that reaches a cluster through the hub",
		Long: `Print a kubeconfig for kubectl and everything that reads such files. It reaches the cluster's Kubernetes API through the
hub's tunnel, as you: the cluster sees your name and your groups. It holds no secret; kubectl runs leat token for one,
with the hub and the context that are in use now.`,
		Example: `  leat kubeconfig berlin > berlin.kubeconfig
  kubectl --kubeconfig berlin.kubeconfig get pods -A
  kubectl --kubeconfig <(leat kubeconfig berlin) get nodes --watch`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want the name of one cluster")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.Fail(printKubeconfig(cmd.Context(), s, args[0], output))
		},
	}
	cmd.Flags().StringVar(&output, "file", "", "write it to this file, readable for you only, instead of printing it")
	return cmd
}

func printKubeconfig(ctx context.Context, s *session.Session, cluster, file string) error {
	content, err := makeKubeconfig(ctx, s, cluster)
	if err != nil {
		return err
	}
	if file == "" {
		_, err = s.Out.Write(content)
		return err
	}
	if err := settings.WriteFile(file, content); err != nil {
		return failure.File(err, "")
	}
	_, err = fmt.Fprintf(s.Out, "Try: kubectl --kubeconfig %s get pods -A\n", file)
	return err
}

func makeKubeconfig(ctx context.Context, s *session.Session, cluster string) ([]byte, error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return nil, err
	}
	tunnel, err := tunnelOf(ctx, s, endpoint, cluster)
	if err != nil {
		return nil, err
	}
	caPEM, err := endpoint.CAPEM()
	if err != nil {
		return nil, err
	}
	p := kubeconfig.Params{Cluster: cluster, TunnelURL: tunnel, CAPEM: caPEM}
	if p.Command, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find leat itself: %w", err)
	}
	if p.Args, err = tokenArgs(s, endpoint); err != nil {
		return nil, err
	}
	return kubeconfig.Make(p)
}

// tunnelOf returns the tunnel's URL if the cluster exists.
func tunnelOf(ctx context.Context, s *session.Session, endpoint session.Endpoint, cluster string) (string, error) {
	c, err := s.Connect(endpoint)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := c.GetCluster(ctx, &fleetv1.GetClusterRequest{Name: cluster}); err != nil {
		return "", err
	}
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return "", err
	}
	tunnel := info.GetTunnelUrl()
	switch {
	case tunnel == "":
		return "", failure.New("this hub has no tunnel", "Its operator sets the tunnel's public URL at the distributor.")
	case !strings.HasPrefix(tunnel, "https://"):
		// client-go drops a user's credentials when the server is not https.
		_, err = fmt.Fprintf(s.Err, "Warning: the tunnel's URL %s is not https, and kubectl sends no credentials to such a server.\n", tunnel)
	}
	return tunnel, err
}

// tokenArgs make leat find the same hub and the same token when kubectl runs it, wherever that is. A token that stands in
// the environment stays there.
func tokenArgs(s *session.Session, endpoint session.Endpoint) ([]string, error) {
	args := []string{"token", "--exec-credential"}
	config, err := s.ConfigPath()
	if err != nil {
		return nil, err
	}
	args = append(args, "--config", config)
	if endpoint.Context != "" {
		args = append(args, "--context", endpoint.Context)
	} else {
		args = append(args, "--server", endpoint.Server)
	}
	if endpoint.TokenFile != "" {
		args = append(args, "--token-file", endpoint.TokenFile)
	}
	if endpoint.CAFile != "" && endpoint.Context == "" {
		path, err := filepath.Abs(endpoint.CAFile)
		if err != nil {
			return nil, fmt.Errorf("find CA file: %w", err)
		}
		args = append(args, "--ca-file", path)
	}
	return args, nil
}
