// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ListWebhookDeliveries implements FleetService.
func (s *Service) ListWebhookDeliveries(
	ctx context.Context, req *fleetv1.ListWebhookDeliveriesRequest,
) (*fleetv1.ListWebhookDeliveriesResponse, error) {
	record, err := s.permitted(ctx, catalog.KindRepository, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	deliveries, err := s.d.Mirrors.Deliveries(ctx, record.Object.Key().Name)
	if err != nil {
		return nil, unresolved(catalog.Source{Repository: record.Object.Key().Name}, err)
	}
	return &fleetv1.ListWebhookDeliveriesResponse{Deliveries: deliveries}, nil
}
