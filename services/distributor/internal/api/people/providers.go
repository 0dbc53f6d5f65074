// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// CreateIdentityProvider implements FleetService.
func (s *Service) CreateIdentityProvider(
	ctx context.Context, req *fleetv1.CreateIdentityProviderRequest,
) (*fleetv1.CreateIdentityProviderResponse, error) {
	record, err := s.create(ctx)(providerOf(req.GetIdentityProvider()))
	return &fleetv1.CreateIdentityProviderResponse{IdentityProvider: s.providerShown(record)}, err
}

// GetIdentityProvider implements FleetService.
func (s *Service) GetIdentityProvider(
	ctx context.Context, req *fleetv1.GetIdentityProviderRequest,
) (*fleetv1.GetIdentityProviderResponse, error) {
	record, err := s.get(ctx, catalog.KindIdentityProvider, req.GetName())
	return &fleetv1.GetIdentityProviderResponse{IdentityProvider: s.providerShown(record)}, err
}

// ListIdentityProviders implements FleetService.
func (s *Service) ListIdentityProviders(
	ctx context.Context, req *fleetv1.ListIdentityProvidersRequest,
) (*fleetv1.ListIdentityProvidersResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindIdentityProvider}, req.GetPage())
	return &fleetv1.ListIdentityProvidersResponse{IdentityProviders: wire.Each(records, s.providerShown), NextPageToken: next}, err
}

// UpdateIdentityProvider implements FleetService.
func (s *Service) UpdateIdentityProvider(
	ctx context.Context, req *fleetv1.UpdateIdentityProviderRequest,
) (*fleetv1.UpdateIdentityProviderResponse, error) {
	record, err := s.update(ctx)(providerOf(req.GetIdentityProvider()))
	return &fleetv1.UpdateIdentityProviderResponse{IdentityProvider: s.providerShown(record)}, err
}

// DeleteIdentityProvider implements FleetService.
func (s *Service) DeleteIdentityProvider(
	ctx context.Context, req *fleetv1.DeleteIdentityProviderRequest,
) (*fleetv1.DeleteIdentityProviderResponse, error) {
	return &fleetv1.DeleteIdentityProviderResponse{}, s.delete(ctx, catalog.KindIdentityProvider, req.GetName())
}

// providerShown adds the hub's redirect URI to what a record says of a provider.
func (s *Service) providerShown(record fleet.Record) *fleetv1.IdentityProvider {
	shown := messageOf[*fleetv1.IdentityProvider](record)
	if shown.GetStatus() != nil {
		shown.Status.RedirectUri = s.d.RedirectURI
	}
	return shown
}
