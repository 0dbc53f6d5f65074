// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package hub answers the calls of the hub's other services: AccessService, ReceptionService, and
// the key set by which access tokens verify. All of them are answered from memory.
package hub

import (
	"context"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// Access implements leat.distributor.v1.AccessService.
type Access struct {
	view *fleet.View
	uses *admission.Uses
}

// NewAccess returns the service that decides who may reach which cluster.
func NewAccess(view *fleet.View, uses *admission.Uses) *Access {
	return &Access{view: view, uses: uses}
}

// Reception implements leat.distributor.v1.ReceptionService.
type Reception struct {
	view   *fleet.View
	issuer *identity.Issuer
}

// NewReception returns the service for the tunnel, which dials agents.
func NewReception(view *fleet.View, issuer *identity.Issuer) *Reception {
	return &Reception{view: view, issuer: issuer}
}

// checkTunnel returns an error unless the caller is the hub's tunnel. The tunnel is the only
// service that asks which people may reach which cluster.
func checkTunnel(ctx context.Context) error {
	if id, _ := identity.FromContext(ctx); id.Kind != identity.KindService || id.Name != identity.ServiceTunnel {
		return wire.Denied("only the hub's tunnel may call this")
	}
	return nil
}
