// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"

	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/h2"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/tunnel/internal/access"
	"github.com/leatdev/leat/services/tunnel/internal/dialout"
	"github.com/leatdev/leat/services/tunnel/internal/receptive"
	"github.com/leatdev/leat/services/tunnel/internal/reverse"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// dialling is what dials agents. Where no cluster has an endpoint, it asks for that now and then and does nothing else.
type dialling struct {
	keeper *receptive.Keeper
	close  func()
}

// newDialling connects to nothing yet.
func newDialling(
	cfg Config, tel *telemetry.Telemetry, distributor rpc.Client, others *replicas, table *session.Table, agents *reverse.Handler,
	budget *h2.Budget,
) (*dialling, error) {
	ca, err := cfg.distributorCA()
	if err != nil {
		return nil, err
	}
	// Agents' calls carry agents' tokens, and must not get the hub's.
	plain, err := rpc.NewClient(rpc.ClientParams{BaseURL: cfg.DistributorURL, Telemetry: tel, CAPEM: ca})
	if err != nil {
		return nil, fmt.Errorf("make distributor's client: %w", err)
	}
	d := &dialling{close: plain.HTTP.CloseIdleConnections}
	home, err := dialout.NewHome(dialout.HomeParams{
		Distributor: plain.BaseURL, Transport: plain.HTTP.Transport, Enrolled: func() { d.keeper.Look() }, Budget: budget, Logger: tel.Logger(),
	})
	if err != nil {
		return nil, fmt.Errorf("pass agents' calls on: %w", err)
	}
	reception := access.NewReception(distributorv1connect.NewReceptionServiceClient(distributor.HTTP, distributor.BaseURL, distributor.Options...))
	params := receptive.Params{
		Self: others.self.ID, Directory: reception, Draining: table.Draining(), Logger: tel.Logger(),
		Dialer: dialout.New(dialout.Params{
			Voucher: reception, Agents: agents, Home: home, AllowLocal: cfg.AllowLocalAgents, Logger: tel.Logger(),
		}),
	}
	if others.store != nil {
		params.Group, params.Leases = others.store.Group(receptive.GroupAge), others.store.Leases()
	}
	d.keeper = receptive.New(params)
	return d, d.keeper.Observe(tel.Meter(scope))
}
