// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"crypto/rand"

	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/resolve"
	"github.com/leatdev/leat/services/distributor/internal/rollouts"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// upstream is gitcache for rollouts.
type upstream struct{ resolve.Upstream }

// Resolve implements rollouts.Sources.
func (u upstream) Resolve(ctx context.Context, source catalog.Source) (catalog.Snapshot, error) {
	answer, err := u.Upstream.Resolve(ctx, source)
	return answer.Snapshot, err
}

func openRollouts(store *sqlstore.Store, view *fleet.View, source resolve.Upstream, objects *fanout.Hub[catalog.Key], tel *telemetry.Telemetry) (*rollouts.Driver, error) {
	metrics, err := rollouts.NewMetrics(tel.Meter(scope))
	if err != nil {
		return nil, err
	}
	stored := sqlstore.RolloutsOf(store)
	return rollouts.NewDriver(rollouts.Params{
		Store: stored, Election: stored, Fleet: fleet.Rollouts{View: view}, Sources: upstream{source}, Objects: objects, Metrics: metrics, Logger: tel.Logger(), Holder: rand.Text(),
	}), nil
}
