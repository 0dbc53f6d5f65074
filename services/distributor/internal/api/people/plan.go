// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// chunkBytes is the size of a part of a bundle.
	chunkBytes = 256 << 10
	// downloadTimeout bounds a download, the time that the bundle takes to arrive included.
	downloadTimeout = 5 * time.Minute
)

// GetServicePlan implements FleetService. Of the configuration it returns the values of all layers,
// the keys of secrets, and references to back ends.
func (s *Service) GetServicePlan(ctx context.Context, req *fleetv1.GetServicePlanRequest) (*fleetv1.GetServicePlanResponse, error) {
	record, entry, err := s.planned(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	cluster := clusterOfService(record)
	service := codec.MessageOf[*fleetv1.Service](&record)
	var config *catalog.Config
	if entry.ConfigDigest != "" {
		if service, cluster, ok := s.derived(record); ok {
			config, err = s.d.Configs.ShownDerived(ctx, service, cluster)
		} else {
			config, err = s.d.Configs.Shown(ctx, record.Object.Meta().UID)
		}
		if err != nil {
			return nil, wire.Error(err)
		}
	}
	res := &fleetv1.GetServicePlanResponse{
		Cluster: objectname.Display(cluster), Service: wire.EntryMessage(&entry), Config: codec.ConfigMessage(config),
		Installed: service.GetStatus().GetReport().GetAppliedAt() != nil,
	}
	if current, ok := s.d.View.Plan(cluster); ok {
		res.Facts = wire.FactsMessage(current.Facts.For(entry))
	}
	if cluster, ok := s.d.View.Catalog.Cluster(cluster); ok {
		res.KubernetesVersion = cluster.Agent.Report.KubernetesVersion
	}
	return res, nil
}

// DownloadServiceBundle implements FleetService. The service's current entry decides about the
// bundle: a digest of another service, or of an earlier entry, is not found, whether it exists or
// not.
func (s *Service) DownloadServiceBundle(
	ctx context.Context, req *fleetv1.DownloadServiceBundleRequest, stream *connect.ServerStream[fleetv1.DownloadServiceBundleResponse],
) (err error) {
	_, entry, err := s.planned(ctx, req.GetService())
	if err != nil {
		return err
	}
	wanted, err := digest.Parse(req.GetDigest())
	if err != nil {
		return rpcerr.Field("digest", "must be sha256: and 64 lower-case hexadecimal digits")
	}
	at := slices.IndexFunc(entry.Bundles, func(b plan.Bundle) bool { return b.Digest == wanted })
	if at < 0 {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND,
			"the service's plan does not hold this bundle; it may have changed just now, so ask for the plan again")
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	blob, err := s.d.Bundles.Open(ctx, entry.Bundles[at])
	if err != nil {
		return wire.BundleError(err)
	}
	defer func() { err = errors.Join(err, blob.Close()) }()
	for chunk := make([]byte, chunkBytes); ; {
		n, err := io.ReadFull(blob, chunk)
		if n > 0 {
			if err := errors.Join(ctx.Err(), stream.Send(&fleetv1.DownloadServiceBundleResponse{Chunk: chunk[:n]})); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read bundle: %w", err)
		}
	}
}

// clusterOfService returns the cluster of a record's service.
func clusterOfService(record fleet.Record) string {
	if service, ok := record.Object.(*catalog.Service); ok {
		return service.Spec.Cluster
	}
	return ""
}

// planned returns a service and its entry in the plan of its cluster.
func (s *Service) planned(ctx context.Context, name string) (fleet.Record, plan.Entry, error) {
	record, err := s.permitted(ctx, catalog.KindService, "service", name)
	if err != nil {
		return fleet.Record{}, plan.Entry{}, err
	}
	missing := wire.NotFound(record.Object.Key())
	service, ok := record.Object.(*catalog.Service)
	if !ok {
		return fleet.Record{}, plan.Entry{}, missing
	}
	entry, ok, err := fleet.LookTwice(ctx, s.d.View, func() (plan.Entry, bool) {
		current, ok := s.d.View.Plan(service.Spec.Cluster)
		if !ok {
			return plan.Entry{}, false
		}
		return current.Entry(service.LocalName())
	})
	if err != nil {
		return fleet.Record{}, plan.Entry{}, wire.Error(err)
	}
	if !ok {
		return fleet.Record{}, plan.Entry{}, missing
	}
	return record, entry, nil
}
