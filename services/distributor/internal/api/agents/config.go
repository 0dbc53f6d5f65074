// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// GetServiceConfig implements DistributorService. The secrets are read from the database for this
// one answer.
func (s *Service) GetServiceConfig(ctx context.Context, req *distributorv1.GetServiceConfigRequest) (*distributorv1.GetServiceConfigResponse, error) {
	cluster, _, err := s.agent(ctx)
	if err != nil {
		return nil, err
	}
	if call, ok := connect.CallInfoForHandlerContext(ctx); ok {
		// The call has no side effects, and so can come as a GET that something in between would
		// keep the answer of.
		call.ResponseHeader().Set("Cache-Control", "no-store")
	}
	entry, ok, err := s.planned(ctx, cluster.Name, req.GetService())
	switch {
	case err != nil:
		return nil, wire.Error(err)
	case !ok && fleet.IsUndecided(s.d.View, cluster.Name):
		return nil, undecided()
	case !ok:
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindService, Name: req.GetService()})
	}
	if entry.ConfigDigest == "" && req.GetConfigDigest() == "" {
		return &distributorv1.GetServiceConfigResponse{}, nil
	}
	config, digest, err := s.d.Configs.Config(ctx, objectname.ServicePath(entry.Name, cluster.Name), entry.UID.String())
	if err != nil {
		return nil, wire.Error(err)
	}
	return serviceConfigMessage(config, digest), nil
}

// planned returns a service's entry in the cluster's plan. It looks twice, and err matches
// catalog.ErrUnavailable if the store did not answer.
func (s *Service) planned(ctx context.Context, cluster, service string) (plan.Entry, bool, error) {
	return fleet.LookTwice(ctx, s.d.View, func() (plan.Entry, bool) {
		current, ok := s.d.View.Plan(cluster)
		if !ok {
			return plan.Entry{}, false
		}
		return current.Entry(service)
	})
}

// serviceConfigMessage is the one message that secrets leave the hub in.
func serviceConfigMessage(config catalog.Config, digest string) *distributorv1.GetServiceConfigResponse {
	m := &distributorv1.GetServiceConfigResponse{ConfigDigest: digest, Values: config.Values, References: config.References, Restart: config.Restart}
	if len(config.Secrets) > 0 {
		m.Secrets = make(map[string][]byte, len(config.Secrets))
	}
	for key, secret := range config.Secrets {
		m.Secrets[key] = []byte(secret.Reveal())
	}
	return m
}
