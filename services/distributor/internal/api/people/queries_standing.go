// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/standing"
)

// isStanding reports whether the database alone has the states of a kind.
func isStanding(kind catalog.Kind) bool { return slices.Contains(standing.Kinds(), kind) }

// snapshot returns the rows of a kind, with the problems that the status of the fleet shows.
func (s *Queries) snapshot(ctx context.Context, kind catalog.Kind) (find.Snapshot, error) {
	snapshot := s.index.Snapshot(kind)
	if !isStanding(kind) {
		return snapshot, nil
	}
	items, err := s.Standing.Problems(ctx, snapshot.Objects())
	if err != nil {
		return snapshot, wire.Error(err)
	}
	slices.SortStableFunc(items, func(a, b problems.Item) int { return cmp.Compare(b.Severity, a.Severity) })
	of := map[string][]*catalog.Problem{}
	for _, item := range items {
		of[item.Path] = append(of[item.Path], &catalog.Problem{Reason: item.Reason, Message: item.Message, Since: item.Since})
	}
	return snapshot.WithProblems(of), nil
}

// documents returns the documents of objects of one kind, as the lists of that kind show them.
func (s *Queries) documents(ctx context.Context, records []fleet.Record) ([]*fleetv1.Document, error) {
	switch records[0].Object.Key().Kind { //nolint:exhaustive // the view knows the states of the others
	case catalog.KindRepository:
		s.People.updateMirrors(ctx, records)
	case catalog.KindRolloutPolicy:
		return statedDocuments(s.Rollouts.withStatus(ctx, records))
	case catalog.KindFleetSource:
		return statedDocuments(s.FleetSources.withStatus(ctx, records))
	case catalog.KindNotifier:
		return statedDocuments(s.Notifiers.withStatus(ctx, records))
	case catalog.KindConfigBackend:
		return statedDocuments(s.People.backendsShown(ctx, records...), nil)
	}
	return wire.Each(records, func(record fleet.Record) *fleetv1.Document { return fleetdoc.Of(objectMessage(record)) }), nil
}

func statedDocuments[M proto.Message](messages []M, err error) ([]*fleetv1.Document, error) {
	if err != nil {
		return nil, err
	}
	return wire.Each(messages, func(m M) *fleetv1.Document { return fleetdoc.Of(m) }), nil
}
