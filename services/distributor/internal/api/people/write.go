// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/codec"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Apply implements FleetService.
func (s *Service) Apply(ctx context.Context, req *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	objects := make([]catalog.Object, len(req.GetDocuments()))
	for i, document := range req.GetDocuments() {
		object, err := codec.Read(document)
		if err != nil {
			return nil, wire.Error(fielderr.Within(fielderr.Indexed("documents", i), err))
		}
		objects[i] = object
	}
	editor, err := inMode(s.d.Editor.Under(guard{c}), req.GetMode())
	if err != nil {
		return nil, wire.Error(err)
	}
	outcomes, err := editor.Apply(ctx, objects, req.GetDryRun())
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
		record := s.d.View.Records.Describe(outcome.Object)
		if global, ok := outcome.Object.(*catalog.GlobalService); ok && req.GetDryRun() && outcome.Action != catalog.ActionUnchanged {
			record.Global = fleet.Globals{Catalog: s.d.View.Catalog}.Preview(global, all...)
		}
		record = c.shown(record)
		message := codec.Show(&record)
		res.Outcomes[i] = &fleetv1.ApplyOutcome{Action: actionMessage(outcome.Action), Document: fleetdoc.Of(message)}
		if rollout := begun[outcome.Object.Key()]; rollout != nil {
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, rollout.says())
			rollout.addTo(message)
		} else if warning := (fleet.Rollouts{View: s.d.View}).Warning(outcome.Object); warning != "" {
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, warning)
		}
		if warn := kinds[outcome.Object.Key().Kind].warn; warn != nil {
			res.Outcomes[i].Warnings = append(res.Outcomes[i].Warnings, warn(s.d.View.Catalog, outcome.Object, all)...)
		}
	}
	return res, nil
}

// inMode returns an editor that takes the objects that a mode takes.
func inMode(editor *catalog.Editor, mode fleetv1.ApplyMode) (*catalog.Editor, error) {
	switch mode {
	case fleetv1.ApplyMode_APPLY_MODE_UNSPECIFIED:
		return editor, nil
	case fleetv1.ApplyMode_APPLY_MODE_CREATE:
		return editor.Creating(), nil
	case fleetv1.ApplyMode_APPLY_MODE_UPDATE:
		return editor.Updating(), nil
	}
	return nil, fielderr.New("mode", "is a number that this version of the hub does not know")
}

// missingOf returns a warning for each project and cluster that a binding names and that neither exists nor is among
// the applied objects: most often it is misspelt. They may come later, so the binding is stored.
func missingOf(c *fleet.Catalog, binding *catalog.AccessBinding, applied []catalog.Object) (warnings []string) {
	warn := func(kind catalog.Kind, names []string) {
		for _, name := range names {
			key := catalog.Key{Kind: kind, Name: name}
			isApplied := slices.ContainsFunc(applied, func(o catalog.Object) bool { return o.Key() == key })
			if _, ok := c.Object(key); !ok && !isApplied {
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

// Delete implements FleetService.
func (s *Service) Delete(ctx context.Context, req *fleetv1.DeleteRequest) (*fleetv1.DeleteResponse, error) {
	c, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	kind, err := codec.KindOf(req.GetKind())
	if err == nil && req.GetCascade() && kind != catalog.KindGlobalService {
		err = fielderr.New("cascade", "has a meaning for a GlobalService alone; leave it out")
	}
	if err = cmp.Or(err, codec.MayWrite("kind", kind)); err != nil {
		return nil, wire.Error(err)
	}
	key, err := keyOf(kind, "name", req.GetName())
	if err != nil {
		return nil, wire.Error(err)
	}
	if !isPrecise(key) {
		record, err := s.find(ctx, c, key)
		if err != nil {
			return nil, err
		}
		key = record.Object.Key()
	}
	editor := s.d.Editor.Under(guard{c})
	if req.GetCascade() {
		editor = editor.Cascading()
	}
	if _, err := editor.Delete(ctx, key); err != nil {
		return nil, wire.Error(c.withoutUnseen(err))
	}
	s.follow(ctx)
	return &fleetv1.DeleteResponse{}, nil
}

// withoutUnseen returns the error that an object is in use with the names that the caller may know.
func (c *caller) withoutUnseen(err error) error {
	used, ok := errors.AsType[*catalog.InUseError](err)
	if !ok {
		return err
	}
	seen := slices.DeleteFunc(slices.Clone(used.By), func(key catalog.Key) bool {
		record, ok := c.view.Records.Get(key)
		return !ok || !c.sees(record.Object)
	})
	return &catalog.InUseError{Key: used.Key, By: seen}
}
