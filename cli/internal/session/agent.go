// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
)

// Agent connects to a cluster's agent, through the hub's tunnel.
func (s *Session) Agent(ctx context.Context, cluster string) (agentv1connect.AgentServiceClient, error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return nil, err
	}
	c, err := s.Connect(endpoint)
	if err != nil {
		return nil, err
	}
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return nil, err
	}
	if info.GetTunnelUrl() == "" {
		return nil, failure.New("this hub has no tunnel, through which agents are reached", "Its operator sets the tunnel's public URL at the distributor.")
	}
	cacheDir, err := s.CacheDir()
	if err != nil {
		return nil, err
	}
	token, err := c.AccessToken(ctx, cacheDir, endpoint.Token)
	if err != nil {
		return nil, err
	}
	return dial(endpoint, info.GetTunnelUrl(), cluster, token.Token)
}

func dial(endpoint Endpoint, tunnel, cluster, token string) (agentv1connect.AgentServiceClient, error) {
	caPEM, err := endpoint.CAPEM()
	if err != nil {
		return nil, err
	}
	base, err := rpc.NewClient(rpc.ClientParams{
		BaseURL: strings.TrimRight(tunnel, "/") + "/clusters/" + cluster, Tokens: identity.StaticToken(token),
		Telemetry: telemetry.Noop(), CAPEM: caPEM,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the tunnel at %q: %w", tunnel, err)
	}
	return agentv1connect.NewAgentServiceClient(base.HTTP, base.BaseURL, base.Options...), nil
}
