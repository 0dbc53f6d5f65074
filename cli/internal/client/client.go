// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package client calls a hub on behalf of a person: the fleet's calls with their token, listings
// without pages, a watch that survives interruptions, and cached access tokens.
package client

import (
	"context"
	"fmt"
	"net/url"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
)

// Client is a person's connection to a hub. It is safe for concurrent use.
type Client struct {
	fleetv1connect.FleetServiceClient
	fleetv1connect.KeyServiceClient
	fleetv1connect.NotifierServiceClient
	fleetv1connect.GlobalServiceServiceClient
	fleetv1connect.RolloutServiceClient
	fleetv1connect.FleetSourceServiceClient
	fleetv1connect.BootstrapServiceClient
	// SignIns are the calls about sessions, in the name of the person.
	SignIns fleetv1connect.SessionServiceClient
	// Requests are the calls about requests for access.
	Requests fleetv1connect.AccessRequestServiceClient
	// Images are the calls about image policies.
	Images fleetv1connect.ImagePolicyServiceClient
	// Queries find objects among many.
	Queries fleetv1connect.QueryServiceClient

	params Params // Server without a slash at its end
}

// New returns a client. It makes no connection yet.
func New(p Params) (*Client, error) {
	params := rpc.ClientParams{BaseURL: p.Server, Telemetry: telemetry.Noop(), IsOutside: true, CAPEM: p.CAPEM}
	if p.Token != "" {
		params.Tokens = identity.StaticToken(p.Token)
	} else if p.Session != nil {
		params.Tokens = sessionTokens{p.Session}
	} else if p.Workload != nil {
		params.Tokens = workloadTokens{p.Workload}
	}
	base, err := rpc.NewClient(params)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", p.Server, err)
	}
	options := append(base.Options, connect.WithInterceptors(stating(p.Reason)))
	fleet := fleetv1connect.NewFleetServiceClient(base.HTTP, base.BaseURL, options...)
	sessions := fleetv1connect.NewSessionServiceClient(base.HTTP, base.BaseURL, options...)
	keys := fleetv1connect.NewKeyServiceClient(base.HTTP, base.BaseURL, options...)
	notifiers := fleetv1connect.NewNotifierServiceClient(base.HTTP, base.BaseURL, options...)
	queries := fleetv1connect.NewQueryServiceClient(base.HTTP, base.BaseURL, options...)
	globals := fleetv1connect.NewGlobalServiceServiceClient(base.HTTP, base.BaseURL, options...)
	rollouts := fleetv1connect.NewRolloutServiceClient(base.HTTP, base.BaseURL, options...)
	sources := fleetv1connect.NewFleetSourceServiceClient(base.HTTP, base.BaseURL, options...)
	bootstraps := fleetv1connect.NewBootstrapServiceClient(base.HTTP, base.BaseURL, options...)
	requests := fleetv1connect.NewAccessRequestServiceClient(base.HTTP, base.BaseURL, options...)
	images := fleetv1connect.NewImagePolicyServiceClient(base.HTTP, base.BaseURL, options...)
	p.Server = base.BaseURL
	return &Client{
		Queries: queries, FleetServiceClient: fleet, KeyServiceClient: keys, NotifierServiceClient: notifiers,
		GlobalServiceServiceClient: globals, RolloutServiceClient: rollouts, FleetSourceServiceClient: sources, BootstrapServiceClient: bootstraps,
		Requests: requests, Images: images, SignIns: sessions, params: p,
	}, nil
}

// headerReason is where the hub looks for the reason of a change.
const headerReason = "Leat-Reason"

// stating returns an interceptor that states the reason in every call that is not a read.
func stating(reason string) connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if reason != "" && request.Spec().IdempotencyLevel != connect.IdempotencyNoSideEffects {
				request.Header().Set(headerReason, url.PathEscape(reason))
			}
			return next(ctx, request)
		}
	})
}

// Server returns the base URL that the client was made for.
func (c *Client) Server() string { return c.params.Server }

// CAPEM returns the certificates that the client was made with.
func (c *Client) CAPEM() []byte { return c.params.CAPEM }
