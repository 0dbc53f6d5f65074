// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// providersShown returns the messages of providers with the hub's redirect URI.
func (s *Service) providersShown(_ context.Context, records []fleet.Record) ([]*fleetv1.IdentityProvider, error) {
	shown := codec.Messages[*fleetv1.IdentityProvider](records)
	for _, provider := range shown {
		provider.Status.RedirectUri = s.d.Settings.RedirectURI
	}
	return shown, nil
}
