// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// GetIdentityProvider implements FleetService.
func (h *Hub) GetIdentityProvider(_ context.Context, request *fleetv1.GetIdentityProviderRequest) (*fleetv1.GetIdentityProviderResponse, error) {
	object, err := h.get("identityprovider", request.GetName())
	return &fleetv1.GetIdentityProviderResponse{IdentityProvider: object.GetIdentityProvider()}, err
}

// ListIdentityProviders implements FleetService, one object a page.
func (h *Hub) ListIdentityProviders(
	_ context.Context, request *fleetv1.ListIdentityProvidersRequest,
) (*fleetv1.ListIdentityProvidersResponse, error) {
	providers, next := paged(listOf(h, "identityprovider", "", (*fleetv1.Document).GetIdentityProvider), request.GetPage())
	return &fleetv1.ListIdentityProvidersResponse{IdentityProviders: providers, NextPageToken: next}, nil
}

// DeleteIdentityProvider implements FleetService.
func (h *Hub) DeleteIdentityProvider(
	_ context.Context, request *fleetv1.DeleteIdentityProviderRequest,
) (*fleetv1.DeleteIdentityProviderResponse, error) {
	return &fleetv1.DeleteIdentityProviderResponse{}, h.remove("identityprovider", request.GetName())
}
