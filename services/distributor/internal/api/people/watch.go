// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/serve"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
)

// WatchFleet implements FleetService.
func (s *Service) WatchFleet(ctx context.Context, req *fleetv1.WatchFleetRequest, stream *connect.ServerStream[fleetv1.WatchFleetResponse]) error {
	id, err := s.admin(ctx)
	if err != nil {
		return err
	}
	// The watcher comes first, so that no change falls between what is there and what follows.
	watcher, keys := s.d.Objects.WatchAll, s.d.View.Keys
	if name := req.GetService(); name != "" {
		if err := catalog.ValidateName("service", name); err != nil {
			return wire.Error(err)
		}
		key := catalog.Key{Kind: catalog.KindService, Name: name}
		watcher = func() *fanout.Watcher[catalog.Key] { return s.d.Objects.Watch(key) }
		keys = func() []catalog.Key { return []catalog.Key{key} }
	}
	w := watcher()
	defer w.Close()
	for _, key := range keys() {
		if record, ok := s.d.View.Get(key); ok {
			if err := stream.Send(&fleetv1.WatchFleetResponse{Document: documentMessage(record)}); err != nil {
				return err
			}
		}
	}
	if err := stream.Send(&fleetv1.WatchFleetResponse{Synced: true}); err != nil {
		return err
	}
	return s.followFleet(ctx, id.Expires, w, stream)
}

func (s *Service) followFleet(ctx context.Context, expires time.Time, w *fanout.Watcher[catalog.Key], stream *connect.ServerStream[fleetv1.WatchFleetResponse]) error {
	heartbeat := time.NewTicker(wire.HeartbeatInterval)
	defer heartbeat.Stop()
	expired, stop := wire.Expiry(expires)
	defer stop()
	for {
		select {
		case <-w.Ready():
			if err := s.sendChanges(w, stream); err != nil {
				return err
			}
		case <-heartbeat.C:
			if _, err := s.admin(ctx); err != nil { // who was may not be any more
				return err
			}
			if err := stream.Send(&fleetv1.WatchFleetResponse{}); err != nil {
				return err
			}
		case <-expired:
			return wire.TokenInvalid("the access token ended; connect again with a new one")
		case <-serve.Draining(ctx):
			return wire.ShuttingDown()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Service) sendChanges(w *fanout.Watcher[catalog.Key], stream *connect.ServerStream[fleetv1.WatchFleetResponse]) error {
	keys, lagged := w.Take()
	if lagged {
		return rpcerr.New(connect.CodeOutOfRange, errorsv1.Reason_REASON_RESUME_EXPIRED, "the watcher fell too far behind; watch again from the beginning")
	}
	for _, key := range keys {
		change := &fleetv1.WatchFleetResponse{Document: tombstoneMessage(key), Deleted: true}
		if record, ok := s.d.View.Get(key); ok {
			change = &fleetv1.WatchFleetResponse{Document: documentMessage(record)}
		}
		if err := stream.Send(change); err != nil {
			return err
		}
	}
	return nil
}
