// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"crypto/rand"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/fleetsync"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// openFleetSources keeps the catalog equal to the fleet sources' documents.
func (s *spine) openFleetSources(persons *people.Service, content *delivery) (wing, error) {
	metrics, err := fleetsync.NewMetrics(s.tel.Meter(scope))
	if err != nil {
		return wing{}, err
	}
	stored := sqlstore.FleetSourcesOf(s.store)
	leader := fleetsync.NewLeader(fleetsync.Params{
		Store: stored, Election: stored, Fleet: fleet.Sources{View: s.view}, Upstream: content.source, Bundles: content.cache,
		Parser: people.FleetDocuments{}, Authority: people.FleetSourceAuthority{View: s.view}, Editor: s.cfg.editor,
		Objects: s.objects, Metrics: metrics, Logger: s.logger, Holder: rand.Text(),
	})
	return wing{
		mount: func(c *calls) {
			c.mount(fleetv1connect.NewFleetSourceServiceHandler(people.NewFleetSources(persons), c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{leader.Run},
	}, nil
}
