// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/rpcerr"
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
	if err := optionalProject(req.GetProject()); err != nil {
		return wire.Error(err)
	}
	// The watcher comes first, so that no change falls between what is there and what follows.
	watcher, keys := s.d.Objects.WatchAll, s.d.View.Keys
	if name := req.GetService(); name != "" {
		key, err := keyOf(catalog.KindService, "service", name)
		if err != nil {
			return wire.Error(err)
		}
		watcher = func() *fanout.Watcher[catalog.Key] { return s.d.Objects.Watch(key) }
		keys = func() []catalog.Key { return []catalog.Key{key} }
	}
	w := watcher()
	defer w.Close()
	isWanted := inProject(req.GetProject())
	for _, key := range keys() {
		if !isWanted(key) {
			continue
		}
		if record, ok := s.d.View.Get(key); ok {
			if err := stream.Send(&fleetv1.WatchFleetResponse{Document: fleetdoc.Of(objectMessage(record))}); err != nil {
				return err
			}
		}
	}
	if err := stream.Send(&fleetv1.WatchFleetResponse{Synced: true}); err != nil {
		return err
	}
	return wire.Stream{
		Expires: id.Expires,
		Ready:   w.Ready(),
		Changed: func() error { return s.sendChanges(w, stream, isWanted) },
		Beat: func() error {
			if _, err := s.admin(ctx); err != nil { // who was may not be any more
				return err
			}
			return stream.Send(&fleetv1.WatchFleetResponse{})
		},
		Drain: wire.ShuttingDown,
	}.Run(ctx)
}

// inProject returns a function that reports whether a watcher of the project, or of all for "", is
// notified of the object.
func inProject(project string) func(catalog.Key) bool {
	return func(key catalog.Key) bool {
		return project == "" || !key.Kind.InProject() || objectname.Project(key.Name) == project
	}
}

func (s *Service) sendChanges(
	w *fanout.Watcher[catalog.Key], stream *connect.ServerStream[fleetv1.WatchFleetResponse], isWanted func(catalog.Key) bool,
) error {
	keys, lagged := w.Take()
	if lagged {
		return rpcerr.New(connect.CodeOutOfRange, errorsv1.Reason_REASON_RESUME_EXPIRED, "the watcher fell too far behind; watch again from the beginning")
	}
	for _, key := range keys {
		if !isWanted(key) {
			continue
		}
		change := &fleetv1.WatchFleetResponse{Document: fleetdoc.Named(string(key.Kind), metadataMessage(&catalog.Metadata{Name: key.Name})), Deleted: true}
		if record, ok := s.d.View.Get(key); ok {
			change = &fleetv1.WatchFleetResponse{Document: fleetdoc.Of(objectMessage(record))}
		}
		if err := stream.Send(change); err != nil {
			return err
		}
	}
	return nil
}
