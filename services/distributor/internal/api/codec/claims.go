// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// requirementsOf refuses conditions with unknown fields, because they narrow who is let in.
func requirementsOf(messages []*fleetv1.ClaimRequirement) ([]catalog.ClaimRequirement, error) {
	var all []catalog.ClaimRequirement
	for i, r := range messages {
		if len(r.ProtoReflect().GetUnknown()) > 0 {
			return nil, fielderr.New(fielderr.Indexed("spec.require", i), "has a field that this version of the hub does not know")
		}
		all = append(all, catalog.ClaimRequirement{Claim: r.GetClaim(), Values: r.GetValues()})
	}
	return all, nil
}

func requirementMessages(all []catalog.ClaimRequirement) []*fleetv1.ClaimRequirement {
	return wire.Each(all, func(r catalog.ClaimRequirement) *fleetv1.ClaimRequirement {
		return &fleetv1.ClaimRequirement{Claim: r.Claim, Values: r.Values}
	})
}
