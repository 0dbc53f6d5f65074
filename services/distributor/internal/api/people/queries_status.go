// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// kindHub is the kind of problems of the hub itself. There is no such object.
const kindHub catalog.Kind = "Hub"

// others adds the problems of objects that many services depend on, as far as the caller may see
// it. If the database does not answer, the status reports it, because most of these states are
// there alone.
func (w *statusWalk) others(ctx context.Context) error {
	if _, err := w.kind(ctx, catalog.KindGlobalService); err != nil {
		return err
	}
	var objects []catalog.Object
	for _, kind := range standing.Kinds() {
		if w.project != "" && !kind.InProject() {
			continue
		}
		seen, err := w.objects(ctx, kind)
		if err != nil {
			return err
		}
		objects = append(objects, seen...)
	}
	items, err := w.queries.Standing.Problems(ctx, objects)
	if errors.Is(err, catalog.ErrUnavailable) {
		w.queries.People.d.Logger.WarnContext(ctx, "status is shown without rollouts, fleet sources, back ends and notifiers", slog.Any("error", err))
		items, err = []problems.Item{{
			Severity: problems.Warning, Kind: kindHub, Path: "database", Reason: reason.DependencyUnavailable,
			Message: "the database does not answer, so states of rollouts, fleet sources, back ends and notifiers are not known",
		}}, nil
	}
	for _, item := range items {
		w.grouper.Add(item, 0)
	}
	return err
}

// objects returns the objects of a kind that the caller may see.
func (w *statusWalk) objects(ctx context.Context, kind catalog.Kind) ([]catalog.Object, error) {
	q, err := find.NewQuery(find.Params{Kind: kind, Project: w.project})
	if err != nil {
		return nil, wire.Error(err)
	}
	var objects []catalog.Object
	err = q.Select(ctx, w.queries.index.Snapshot(kind), w.caller.viewer(q), time.Now(), func(row *find.Row) bool {
		objects = append(objects, row.Object)
		return true
	})
	return objects, queryError(err)
}
