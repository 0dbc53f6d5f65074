// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// ConfigSets implements leat.fleet.v1.ConfigSetService.
type ConfigSets struct{ people *Service }

var _ fleetv1connect.ConfigSetServiceHandler = (*ConfigSets)(nil)

// NewConfigSets returns the service for sets of configuration.
func NewConfigSets(people *Service) *ConfigSets { return &ConfigSets{people: people} }

// CreateConfigSet implements ConfigSetServiceHandler.
func (c *ConfigSets) CreateConfigSet(ctx context.Context, req *fleetv1.CreateConfigSetRequest) (*fleetv1.CreateConfigSetResponse, error) {
	record, err := c.people.create(ctx)(configSetOf(req.GetConfigSet()))
	return &fleetv1.CreateConfigSetResponse{ConfigSet: messageOf[*fleetv1.ConfigSet](record)}, err
}

// GetConfigSet implements ConfigSetServiceHandler.
func (c *ConfigSets) GetConfigSet(ctx context.Context, req *fleetv1.GetConfigSetRequest) (*fleetv1.GetConfigSetResponse, error) {
	record, err := c.people.get(ctx, catalog.KindConfigSet, req.GetName())
	return &fleetv1.GetConfigSetResponse{ConfigSet: messageOf[*fleetv1.ConfigSet](record)}, err
}

// ListConfigSets implements ConfigSetServiceHandler.
func (c *ConfigSets) ListConfigSets(ctx context.Context, req *fleetv1.ListConfigSetsRequest) (*fleetv1.ListConfigSetsResponse, error) {
	records, next, err := c.people.list(ctx, fleet.Query{Kind: catalog.KindConfigSet, Project: req.GetProject()}, req.GetPage())
	return &fleetv1.ListConfigSetsResponse{ConfigSets: wire.Each(records, messageOf[*fleetv1.ConfigSet]), NextPageToken: next}, err
}

// UpdateConfigSet implements ConfigSetServiceHandler.
func (c *ConfigSets) UpdateConfigSet(ctx context.Context, req *fleetv1.UpdateConfigSetRequest) (*fleetv1.UpdateConfigSetResponse, error) {
	record, err := c.people.update(ctx)(configSetOf(req.GetConfigSet()))
	return &fleetv1.UpdateConfigSetResponse{ConfigSet: messageOf[*fleetv1.ConfigSet](record)}, err
}

// DeleteConfigSet implements ConfigSetServiceHandler.
func (c *ConfigSets) DeleteConfigSet(ctx context.Context, req *fleetv1.DeleteConfigSetRequest) (*fleetv1.DeleteConfigSetResponse, error) {
	return &fleetv1.DeleteConfigSetResponse{}, c.people.delete(ctx, catalog.KindConfigSet, req.GetName())
}

func configSetOf(m *fleetv1.ConfigSet) (*catalog.ConfigSet, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	return &catalog.ConfigSet{Metadata: metadata, Spec: catalog.ConfigSetSpec{
		Description: m.GetSpec().GetDescription(), Config: configOf(m.GetSpec().GetConfig()),
	}}, nil
}

// configSetMessage never carries a secret.
func configSetMessage(set *catalog.ConfigSet) *fleetv1.ConfigSet {
	return &fleetv1.ConfigSet{
		Metadata: metadataMessage(&set.Metadata),
		Spec:     &fleetv1.ConfigSetSpec{Description: set.Spec.Description, Config: configMessage(set.Spec.Config)},
	}
}
