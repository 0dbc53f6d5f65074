// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"crypto/rand"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/rollout/drive"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// upstream is gitcache for rollouts.
type upstream struct{ resolve.Upstream }

// Resolve implements drive.Sources.
func (u upstream) Resolve(ctx context.Context, source catalog.Source) (catalog.Snapshot, error) {
	answer, err := u.Upstream.Resolve(ctx, source)
	return answer.Snapshot, err
}

// openRollouts drives rollouts, and lets people read them, stop them and pin content.
func (s *spine) openRollouts(persons *people.Service, source resolve.Upstream) (wing, error) {
	metrics, err := drive.NewMetrics(s.tel.Meter(scope))
	if err != nil {
		return wing{}, err
	}
	stored := sqlstore.RolloutsOf(s.store)
	driver := drive.NewDriver(drive.Params{
		Store: stored, Election: stored, Fleet: fleet.Rollouts{View: s.view}, Sources: upstream{source}, Objects: s.objects,
		Metrics: metrics, Logger: s.logger, Holder: rand.Text(),
	})
	return wing{
		mount: func(c *calls) {
			service := people.NewRollouts(persons, sqlstore.AdmissionsOf(s.store))
			c.mount(fleetv1connect.NewRolloutServiceHandler(service, c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{s.settled(driver.Run)},
	}, nil
}
