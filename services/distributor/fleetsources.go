// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"crypto/rand"

	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/bundles"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fanout"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/gitsource"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// openFleetSources returns what keeps the catalog as fleet sources say.
func (c *Config) openFleetSources(
	store *sqlstore.Store, view *fleet.View, objects *fanout.Hub[catalog.Key], source *gitsource.Source, cache *bundles.Cache, tel *telemetry.Telemetry,
) (*fleetsync.Leader, error) {
	metrics, err := fleetsync.NewMetrics(tel.Meter(scope))
	if err != nil {
		return nil, err
	}
	stored := sqlstore.FleetSourcesOf(store)
	return fleetsync.NewLeader(fleetsync.Params{
		Store: stored, Election: stored, Fleet: fleet.Sources{View: view}, Upstream: source, Bundles: cache,
		Parser: people.FleetDocuments{}, Authority: people.FleetSourceAuthority{View: view}, Editor: c.editor,
		Objects: objects, Metrics: metrics, Logger: tel.Logger(), Holder: rand.Text(),
	}), nil
}
