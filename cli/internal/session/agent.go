// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/fleetcalls"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// AgentOf connects to the agent of a service's cluster, as Agent does. It also returns how the
// agent names the service. A person with a binding for the service, and none for its cluster, gets
// an error about that: the tunnel would answer that the cluster does not exist.
func (s *Session) AgentOf(ctx context.Context, service *fleetv1.Service) (agent agentv1connect.AgentServiceClient, name string, err error) {
	cluster, err := ClusterOf(service)
	if err != nil {
		return nil, "", err
	}
	name = objectname.Join(service.GetMetadata().GetProject(), service.GetMetadata().GetName())
	if err := s.checkReach(ctx, cluster, document.ServiceReference(service)); err != nil {
		return nil, "", err
	}
	agent, err = s.Agent(ctx, cluster)
	return agent, name, err
}

// checkReach returns an error if no binding lets the person into the cluster of a service that they
// may see.
func (s *Session) checkReach(ctx context.Context, cluster, service string) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	reference := objectname.Display(cluster)
	_, err = fleetcalls.Get[*fleetv1.Cluster](ctx, c, reference)
	if connect.CodeOf(err) != connect.CodeNotFound {
		return err
	}
	return failure.New(fmt.Sprintf("no binding lets you reach cluster %s, where service/%s runs", reference, service),
		"Its agent has to be asked. A binding of the service, or of its project, is not enough: ask for a binding of the cluster.")
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

// TunnelURL returns the URL of the hub's tunnel for files that others read, without a slash at its end. It warns of one that kubectl and
// everything else that is built on client-go sends no credentials to.
func (s *Session) TunnelURL(ctx context.Context, c *client.Client) (string, error) {
	tunnel, err := tunnelURL(ctx, c)
	if err == nil && !strings.HasPrefix(tunnel, "https://") {
		_, err = fmt.Fprintf(s.Err, `Warning: the tunnel's URL %s is not https. kubectl sends no credentials to such a server, which then refuses it.
Have the hub's operator serve the tunnel with TLS (LEAT_TLS_CERT_FILE and LEAT_TLS_KEY_FILE, or a proxy in front of it), set the distributor's
LEAT_TUNNEL_URL to an https:// URL, and run this command again.
`, tunnel)
	}
	return tunnel, err
}

// tunnelURL returns the URL of the hub's tunnel, without a slash at its end.
func tunnelURL(ctx context.Context, c *client.Client) (string, error) {
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return "", err
	}
	if info.GetTunnelUrl() == "" {
		return "", failure.New("this hub has no tunnel, through which clusters are reached", "Its operator sets the tunnel's public URL at the distributor.")
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
		Telemetry: telemetry.Noop(), IsOutside: true, CAPEM: c.CAPEM(),
	})
	if err != nil {
		return rpc.Client{}, fmt.Errorf("connect to the tunnel at %q: %w", tunnel, err)
	}
	base.Options = append(base.Options, connect.WithInterceptors(tunnelErrors{tunnel}))
	return base, nil
}

// tunnelErrors adds to errors of the network that it was the tunnel, at this address, that did not
// answer: commands report them as errors of the hub otherwise.
type tunnelErrors struct{ address string }

// WrapUnary implements connect.Interceptor.
func (e tunnelErrors) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		return response, failure.FromTunnel(err, e.address)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (e tunnelErrors) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return tunnelStream{next(ctx, spec), e}
	}
}

// WrapStreamingHandler implements connect.Interceptor. There is no handler here.
func (tunnelErrors) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type tunnelStream struct {
	connect.StreamingClientConn
	errors tunnelErrors
}

// Receive implements connect.StreamingClientConn.
func (s tunnelStream) Receive(message any) error {
	return failure.FromTunnel(s.StreamingClientConn.Receive(message), s.errors.address)
}
