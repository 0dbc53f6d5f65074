// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
)

// AgentOf connects to the agent of a service's cluster, as Agent does. It also returns how the agent
// names the service.
func (s *Session) AgentOf(ctx context.Context, service *fleetv1.Service) (agent agentv1connect.AgentServiceClient, name string, err error) {
	cluster, err := ClusterOf(service)
	if err != nil {
		return nil, "", err
	}
	agent, err = s.Agent(ctx, cluster)
	return agent, objectname.Join(service.GetMetadata().GetProject(), service.GetMetadata().GetName()), err
}

// Agent connects to a cluster's agent, through the hub's tunnel. It wants the cluster's path: see
// ClusterPath.
func (s *Session) Agent(ctx context.Context, cluster string) (agentv1connect.AgentServiceClient, error) {
	base, err := s.dialTunnel(ctx, "/clusters/"+cluster)
	if err != nil {
		return nil, err
	}
	return agentv1connect.NewAgentServiceClient(base.HTTP, base.BaseURL, base.Options...), nil
}

// Kubernetes returns how a client of Kubernetes reaches a cluster's API, through the hub's tunnel. It
// wants the cluster's path: see ClusterPath.
func (s *Session) Kubernetes(ctx context.Context, cluster string) (*rest.Config, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	tunnel, err := tunnelURL(ctx, c)
	if err != nil {
		return nil, err
	}
	token, err := s.AccessToken(ctx, c)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: tunnel + "/clusters/" + cluster, BearerToken: token.Token, TLSClientConfig: rest.TLSClientConfig{CAData: c.CAPEM()},
	}, nil
}

// tunnelURL returns the URL of the hub's tunnel, without a slash at its end.
func tunnelURL(ctx context.Context, c *client.Client) (string, error) {
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return "", err
	}
	if info.GetTunnelUrl() == "" {
		return "", failure.New("this hub has no tunnel, through which agents are reached", "Its operator sets the tunnel's public URL at the distributor.")
	}
	return strings.TrimRight(info.GetTunnelUrl(), "/"), nil
}

// Tunnel connects to the hub's tunnel itself.
func (s *Session) Tunnel(ctx context.Context) (tunnelv1connect.TunnelServiceClient, error) {
	base, err := s.dialTunnel(ctx, "")
	if err != nil {
		return nil, err
	}
	return tunnelv1connect.NewTunnelServiceClient(base.HTTP, base.BaseURL, base.Options...), nil
}

// AccessToken returns a token for the tunnel, which is cached beside the config file.
func (s *Session) AccessToken(ctx context.Context, c *client.Client) (client.AccessToken, error) {
	path, err := s.ConfigPath()
	if err != nil {
		return client.AccessToken{}, err
	}
	return c.AccessToken(ctx, filepath.Join(filepath.Dir(path), "tokens"))
}

// dialTunnel returns a client for the services below a path of the tunnel.
func (s *Session) dialTunnel(ctx context.Context, path string) (rpc.Client, error) {
	c, err := s.Client()
	if err != nil {
		return rpc.Client{}, err
	}
	tunnel, err := tunnelURL(ctx, c)
	if err != nil {
		return rpc.Client{}, err
	}
	token, err := s.AccessToken(ctx, c)
	if err != nil {
		return rpc.Client{}, err
	}
	base, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: tunnel + path, Tokens: identity.StaticToken(token.Token),
		Telemetry: telemetry.Noop(), CAPEM: c.CAPEM(),
	})
	if err != nil {
		return rpc.Client{}, fmt.Errorf("connect to the tunnel at %q: %w", tunnel, err)
	}
	return base, nil
}
