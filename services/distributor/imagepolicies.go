// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
)

// openImagePolicies serves image policies to people.
func (s *spine) openImagePolicies(persons *people.Service) (wing, error) {
	return wing{
		mount: func(c *calls) {
			c.mount(fleetv1connect.NewImagePolicyServiceHandler(people.NewImagePolicies(persons), c.server.Options(c.recorder)...))
		},
	}, nil
}
