// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"slices"

	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/find"
	"github.com/leatdev/leat/services/distributor/internal/problems"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
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
