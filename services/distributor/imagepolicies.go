// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"crypto/rand"

	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// openImagePolicies writes the tags that image policies select into Git, and serves the policies to people.
func (s *spine) openImagePolicies(persons *people.Service, content *delivery) (wing, error) {
	metrics, err := imagesync.NewMetrics(s.tel.Meter(scope))
	if err != nil {
		return wing{}, err
	}
	stored := sqlstore.ImagePoliciesOf(s.store)
	leader := imagesync.NewLeader(imagesync.Params{
		Store: stored, Election: stored, Fleet: fleet.ImagePolicies{View: s.view}, Upstream: content.source, Bundles: content.cache,
		Objects: s.objects, Metrics: metrics, Logger: s.logger, Holder: rand.Text(),
	})
	return wing{
		mount: func(c *calls) {
			c.mount(fleetv1connect.NewImagePolicyServiceHandler(people.NewImagePolicies(persons), c.server.Options(c.recorder)...))
		},
		work: []func(context.Context) error{leader.Run},
	}, nil
}
