// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

// Apply implements FleetService.
func (s *Service) Apply(ctx context.Context, req *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	objects := make([]catalog.Object, len(req.GetDocuments()))
	for i, document := range req.GetDocuments() {
		object, err := documentOf(document)
		if err != nil {
			return nil, wire.Error(fielderr.Within(fielderr.Indexed("documents", i), err))
		}
		objects[i] = object
	}
	outcomes, err := s.d.Editor.Under(guard{c}).Apply(ctx, objects, req.GetDryRun())
	if err != nil {
		return nil, wire.Error(err)
	}
	begun := editRollouts(nil)
	if !req.GetDryRun() {
		s.follow(ctx)
		begun = s.awaitRollouts(ctx, outcomes)
	}
	res := &fleetv1.ApplyResponse{Outcomes: make([]*fleetv1.ApplyOutcome, len(outcomes))}
	all := wire.Each(outcomes, func(o catalog.Outcome) catalog.Object { return o.Object })
	for i, outcome := range outcomes {
		record := s.d.View.Describe(outcome.Object)
		if global, ok := outcome.Object.(*catalog.GlobalService); ok && req.GetDryRun() && outcome.Action != catalog.ActionUnchanged {
			record.Global = fleet.PreviewGlobal(s.d.View, global, all...)
		}
		message := objectMessage(c.shown(record))
		res.Outcomes[i] = &fleetv1.ApplyOutcome{Action: actionMessage(outcome.Action), Document: fleetdoc.Of(message)}
		if rollout := begun[outcome.Object.Key()]; rollout != nil {
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, rollout.says())
			rollout.addTo(message)
		} else if warning := (fleet.Rollouts{View: s.d.View}).Warning(outcome.Object); warning != "" {
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, warning)
		}
		switch o := outcome.Object.(type) {
		case *catalog.AccessBinding:
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, missingOf(s.d.View, o, all)...)
		case *catalog.RolloutPolicy:
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, fleet.EmptyWaves(s.d.View, o, all)...)
		}
	}
	return res, nil
}

// missingOf returns a warning for each project and cluster that a binding names and that neither exists nor is among
// the applied objects: most often it is misspelt. They may come later, so the binding is stored.
func missingOf(v *fleet.View, binding *catalog.AccessBinding, applied []catalog.Object) (warnings []string) {
	warn := func(kind catalog.Kind, names []string) {
		for _, name := range names {
			key := catalog.Key{Kind: kind, Name: name}
			isApplied := slices.ContainsFunc(applied, func(o catalog.Object) bool { return o.Key() == key })
			if _, ok := v.Object(key); !ok && !isApplied {
				warnings = append(warnings, fmt.Sprintf("%s does not exist; the binding gives nothing there until it does", key))
			}
		}
	}
	warn(catalog.KindProject, binding.Spec.Projects.Names)
	warn(catalog.KindCluster, binding.Spec.Clusters.Names)
	return warnings
}

func actionMessage(a catalog.Action) fleetv1.ApplyAction {
	switch a {
	case catalog.ActionCreated:
		return fleetv1.ApplyAction_APPLY_ACTION_CREATED
	case catalog.ActionConfigured:
		return fleetv1.ApplyAction_APPLY_ACTION_CONFIGURED
	case catalog.ActionUnchanged:
		return fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED
	}
	return fleetv1.ApplyAction_APPLY_ACTION_UNSPECIFIED
}

// follow makes an edit visible at once, here and in gitcache. If the database has gone since, the
// monitor catches up: the edit itself is done.
func (s *Service) follow(ctx context.Context) {
	if err := s.d.View.Refresh(ctx); err != nil {
		s.d.Logger.WarnContext(ctx, "edit stored, but not seen yet", slog.Any("error", err))
	}
	s.d.Mirrors.Push()
}

// edit returns a function that carries out one edit, and returns what was stored. The function is
// called with the object of the request, or with the error that the request is wrong. Beside an
// error it returns a record of nothing, whose message is nil.
func (s *Service) edit(
	ctx context.Context, do func(*catalog.Editor, context.Context, catalog.Object) (catalog.Object, error),
) func(catalog.Object, error) (fleet.Record, error) {
	return func(object catalog.Object, err error) (fleet.Record, error) {
		c, notPerson := s.person(ctx)
		if notPerson != nil {
			return fleet.Record{}, notPerson // before what is wrong with the request
		}
		if err != nil {
			return fleet.Record{}, wire.Error(err)
		}
		stored, err := do(s.d.Editor.Under(guard{c}), ctx, object)
		if err != nil {
			return fleet.Record{}, wire.Error(err)
		}
		s.follow(ctx)
		return c.shown(s.d.View.Describe(stored)), nil
	}
}

func (s *Service) create(ctx context.Context) func(catalog.Object, error) (fleet.Record, error) {
	return s.edit(ctx, (*catalog.Editor).Create)
}

func (s *Service) update(ctx context.Context) func(catalog.Object, error) (fleet.Record, error) {
	return s.edit(ctx, (*catalog.Editor).Update)
}

// CreateCluster implements FleetService.
func (s *Service) CreateCluster(ctx context.Context, req *fleetv1.CreateClusterRequest) (*fleetv1.CreateClusterResponse, error) {
	record, err := s.create(ctx)(clusterOf(req.GetCluster()))
	return &fleetv1.CreateClusterResponse{Cluster: messageOf[*fleetv1.Cluster](record)}, err
}

// UpdateCluster implements FleetService.
func (s *Service) UpdateCluster(ctx context.Context, req *fleetv1.UpdateClusterRequest) (*fleetv1.UpdateClusterResponse, error) {
	record, err := s.update(ctx)(clusterOf(req.GetCluster()))
	return &fleetv1.UpdateClusterResponse{Cluster: messageOf[*fleetv1.Cluster](record)}, err
}

// DeleteCluster implements FleetService.
func (s *Service) DeleteCluster(ctx context.Context, req *fleetv1.DeleteClusterRequest) (*fleetv1.DeleteClusterResponse, error) {
	return &fleetv1.DeleteClusterResponse{}, s.delete(ctx, catalog.KindCluster, req.GetName())
}

// CreateRepository implements FleetService.
func (s *Service) CreateRepository(ctx context.Context, req *fleetv1.CreateRepositoryRequest) (*fleetv1.CreateRepositoryResponse, error) {
	record, err := s.create(ctx)(repositoryOf(req.GetRepository()))
	return &fleetv1.CreateRepositoryResponse{Repository: messageOf[*fleetv1.Repository](record)}, err
}

// UpdateRepository implements FleetService.
func (s *Service) UpdateRepository(ctx context.Context, req *fleetv1.UpdateRepositoryRequest) (*fleetv1.UpdateRepositoryResponse, error) {
	record, err := s.update(ctx)(repositoryOf(req.GetRepository()))
	return &fleetv1.UpdateRepositoryResponse{Repository: messageOf[*fleetv1.Repository](record)}, err
}

// DeleteRepository implements FleetService.
func (s *Service) DeleteRepository(ctx context.Context, req *fleetv1.DeleteRepositoryRequest) (*fleetv1.DeleteRepositoryResponse, error) {
	return &fleetv1.DeleteRepositoryResponse{}, s.delete(ctx, catalog.KindRepository, req.GetName())
}

// CreateService implements FleetService.
func (s *Service) CreateService(ctx context.Context, req *fleetv1.CreateServiceRequest) (*fleetv1.CreateServiceResponse, error) {
	record, err := s.create(ctx)(serviceOf(req.GetService()))
	return &fleetv1.CreateServiceResponse{Service: messageOf[*fleetv1.Service](record)}, err
}

// UpdateService implements FleetService.
func (s *Service) UpdateService(ctx context.Context, req *fleetv1.UpdateServiceRequest) (*fleetv1.UpdateServiceResponse, error) {
	record, err := s.update(ctx)(serviceOf(req.GetService()))
	return &fleetv1.UpdateServiceResponse{Service: messageOf[*fleetv1.Service](record)}, err
}

// DeleteService implements FleetService.
func (s *Service) DeleteService(ctx context.Context, req *fleetv1.DeleteServiceRequest) (*fleetv1.DeleteServiceResponse, error) {
	return &fleetv1.DeleteServiceResponse{}, s.delete(ctx, catalog.KindService, req.GetName())
}

func (s *Service) delete(ctx context.Context, kind catalog.Kind, name string) error {
	c, err := s.person(ctx)
	if err != nil {
		return err
	}
	key, err := keyOf(kind, "name", name)
	if err != nil {
		return wire.Error(err)
	}
	if !isPrecise(key) {
		record, err := s.find(ctx, c, key)
		if err != nil {
			return err
		}
		key = record.Object.Key()
	}
	if _, err := s.d.Editor.Under(guard{c}).Delete(ctx, key); err != nil {
		return wire.Error(c.withoutUnseen(err))
	}
	s.follow(ctx)
	return nil
}

// withoutUnseen returns the error that an object is in use with the names that the caller may know.
func (c *caller) withoutUnseen(err error) error {
	used, ok := errors.AsType[*catalog.InUseError](err)
	if !ok {
		return err
	}
	seen := slices.DeleteFunc(slices.Clone(used.By), func(key catalog.Key) bool {
		record, ok := c.view.Get(key)
		return !ok || !c.sees(record.Object)
	})
	return &catalog.InUseError{Key: used.Key, By: seen}
}
