// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"log/slog"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/config/layers"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// RefreshConfigBackend implements FleetService.
func (s *Service) RefreshConfigBackend(
	ctx context.Context, req *fleetv1.RefreshConfigBackendRequest,
) (*fleetv1.RefreshConfigBackendResponse, error) {
	record, err := s.permitted(ctx, catalog.KindConfigBackend, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	n, err := s.d.Configs.Hasten(ctx, record.Object.Meta().UID, req.GetPath(), time.Now())
	if err != nil {
		return nil, wire.Error(err)
	}
	if n == 0 && req.GetPath() != "" {
		return nil, rpcerr.Field("path", "is not a path that a service refers to")
	}
	return &fleetv1.RefreshConfigBackendResponse{Entries: int32(n)}, nil
}

// ExplainServiceConfig implements FleetService.
func (s *Service) ExplainServiceConfig(
	ctx context.Context, req *fleetv1.ExplainServiceConfigRequest,
) (*fleetv1.ExplainServiceConfigResponse, error) {
	record, err := s.permitted(ctx, catalog.KindService, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	var all []configs.Explained
	if service, cluster, ok := s.derived(record); ok {
		all, err = s.d.Configs.ExplainDerived(ctx, service, cluster)
	} else {
		all, err = s.d.Configs.Explain(ctx, record.Object.Meta().UID)
	}
	if err != nil {
		return nil, wire.Error(err)
	}
	res := &fleetv1.ExplainServiceConfigResponse{}
	for _, x := range all {
		if req.GetKey() == "" || req.GetKey() == x.Key {
			res.Keys = append(res.Keys, explanation(x, objectname.Project(record.Object.Meta().Name)))
		}
	}
	if req.GetKey() != "" && len(res.GetKeys()) == 0 {
		return nil, rpcerr.Field("key", "is not a key of the service's configuration")
	}
	return res, s.explainHold(ctx, record, res)
}

// explainHold adds which policy holds the service at another configuration, and how that differs.
func (s *Service) explainHold(ctx context.Context, record fleet.Record, res *fleetv1.ExplainServiceConfigResponse) error {
	service, isService := record.Object.(*catalog.Service)
	if hold := record.Service.Hold; !isService || hold == nil || !hold.IsConfigHeld || hold.Policy == "" {
		return nil
	}
	var cluster *catalog.Cluster
	if service.Derived != nil {
		var ok bool
		if cluster, ok = (fleet.Globals{Catalog: s.d.View.Catalog}).SeenCluster(service); !ok {
			return nil
		}
	}
	keys, err := s.d.Configs.HeldKeys(ctx, service, cluster)
	if err != nil {
		return wire.Error(err)
	}
	if len(keys) > 0 {
		res.HeldBy, res.HeldKeys = objectname.Format(record.Service.Hold.Policy, objectname.Project(service.Name)), keys
	}
	return nil
}

// derived returns a derived service with its cluster. It reports false for a service of another kind.
func (s *Service) derived(record fleet.Record) (*catalog.Service, *catalog.Cluster, bool) {
	service, ok := record.Object.(*catalog.Service)
	if !ok || service.Derived == nil {
		return nil, nil, false
	}
	cluster, ok := fleet.Globals{Catalog: s.d.View.Catalog}.SeenCluster(service)
	return service, cluster, ok
}

// explanation names sets as people do in the project.
func explanation(x configs.Explained, project string) *fleetv1.ConfigExplanation {
	m := &fleetv1.ConfigExplanation{
		Key: x.Key, Layer: string(x.Layer.Kind), Set: setName(x.Layer, project), Reference: x.Reference, ResolvedReference: x.Resolved,
		Through: codec.FormatNames(x.Through, project), SameAs: x.SameAs, Secret: x.IsSecret, State: fleetv1.ConfigState_CONFIG_STATE_MISSING, Version: x.Version,
		ReadTime: catalogwire.Timestamp(x.ReadAt), NextReadTime: catalogwire.Timestamp(x.NextAt), Problem: catalogwire.ProblemMessage(x.Problem),
		Override: x.Layer.Override,
	}
	for _, shadow := range x.Shadows {
		m.Shadows = append(m.Shadows, &fleetv1.ConfigShadowed{
			Layer: string(shadow.Layer.Kind), Set: setName(shadow.Layer, project), Reference: shadow.Reference, Secret: shadow.IsSecret,
			Override: shadow.Layer.Override,
		})
	}
	switch {
	case x.IsLatest:
		m.State = fleetv1.ConfigState_CONFIG_STATE_CURRENT
	case x.IsGiven:
		m.State = fleetv1.ConfigState_CONFIG_STATE_STALE
	}
	return m
}

// setName returns the name of the set that a layer is; empty if it is not a set.
func setName(layer layers.Origin, project string) string {
	if layer.Set == "" {
		return ""
	}
	return objectname.Format(layer.Set, project)
}

// backendsShown returns the messages of back ends with the state of their reads. Without the
// database it is left out.
func (s *Service) backendsShown(ctx context.Context, records []fleet.Record) ([]*fleetv1.ConfigBackend, error) {
	shown := codec.Messages[*fleetv1.ConfigBackend](records)
	states, err := s.d.Configs.Status(ctx)
	if err != nil {
		s.d.Logger.WarnContext(ctx, "configuration back ends are shown without their states", slog.Any("error", err))
		return shown, nil
	}
	for i, record := range records {
		state := states[record.Object.Meta().UID]
		shown[i].Status = &fleetv1.ConfigBackendStatus{
			Entries: int32(state.Entries), Failing: int32(state.Failing), Problem: catalogwire.ProblemMessage(state.Problem),
			ReadTime: catalogwire.Timestamp(state.ReadAt),
		}
	}
	return shown, nil
}
