// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package client calls a hub on behalf of a person: the fleet's calls with their token, listings
// without pages, a watch that survives interruptions, and cached access tokens.
package client

import (
	"fmt"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
)

// Params identify the hub and the caller.
type Params struct {
	Server string // base URL of the distributor: http:// or https://
	Token  string // API token; empty: no token is sent, unless there is a session
	CAPEM  []byte // certificates to trust instead of the system's; empty means the system's
	// Session signs the person in where there is no API token; nil: nothing does.
	Session *Session
}

// Client is a person's connection to a hub. It is safe for concurrent use.
type Client struct {
	fleetv1connect.FleetServiceClient
	fleetv1connect.KeyServiceClient
	// SignIns are the calls about sessions, in the name of the person.
	SignIns fleetv1connect.SessionServiceClient

	params Params // Server without a slash at its end
}

// New returns a client. It makes no connection yet.
func New(p Params) (*Client, error) {
	params := rpc.ClientParams{BaseURL: p.Server, Telemetry: telemetry.Noop(), CAPEM: p.CAPEM}
	if p.Token != "" {
		params.Tokens = identity.StaticToken(p.Token)
	} else if p.Session != nil {
		params.Tokens = sessionTokens{p.Session}
	}
	base, err := rpc.NewClient(params)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", p.Server, err)
	}
	fleet := fleetv1connect.NewFleetServiceClient(base.HTTP, base.BaseURL, base.Options...)
	sessions := fleetv1connect.NewSessionServiceClient(base.HTTP, base.BaseURL, base.Options...)
	p.Server = base.BaseURL
	keys := fleetv1connect.NewKeyServiceClient(base.HTTP, base.BaseURL, base.Options...)
	return &Client{FleetServiceClient: fleet, KeyServiceClient: keys, SignIns: sessions, params: p}, nil
}

// Server returns the base URL that the client was made for.
func (c *Client) Server() string { return c.params.Server }

// CAPEM returns the certificates that the client was made with.
func (c *Client) CAPEM() []byte { return c.params.CAPEM }
