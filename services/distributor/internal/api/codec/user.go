// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// UserOf returns the user that a message describes.
func UserOf(m *fleetv1.User) (*catalog.User, error) {
	metadata, err := hubMetadataOf(m.GetMetadata())
	return &catalog.User{
		Metadata: metadata,
		Spec:     catalog.UserSpec{Description: m.GetSpec().GetDescription(), Groups: m.GetSpec().GetGroups()},
	}, err
}

func userMessage(u *catalog.User) *fleetv1.User {
	return &fleetv1.User{
		Metadata: MetadataMessage(&u.Metadata), Spec: &fleetv1.UserSpec{Description: u.Spec.Description, Groups: u.Spec.Groups},
	}
}
