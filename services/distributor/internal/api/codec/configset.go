// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func configSetOf(m *fleetv1.ConfigSet) (*catalog.ConfigSet, error) {
	metadata, err := metadataOf(m.GetMetadata())
	if err != nil {
		return nil, err
	}
	return &catalog.ConfigSet{Metadata: metadata, Spec: catalog.ConfigSetSpec{
		Description: m.GetSpec().GetDescription(), Config: configOf(m.GetSpec().GetConfig()),
	}}, nil
}

// configSetMessage never carries a secret.
func configSetMessage(set *catalog.ConfigSet) *fleetv1.ConfigSet {
	return &fleetv1.ConfigSet{
		Metadata: MetadataMessage(&set.Metadata),
		Spec:     &fleetv1.ConfigSetSpec{Description: set.Spec.Description, Config: ConfigMessage(set.Spec.Config)},
	}
}
