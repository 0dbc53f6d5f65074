// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

// imageRepository describes a repository of images.
func imageRepository(name string) *fleetv1.Document {
	return fleetdoc.Of(&fleetv1.Repository{
		Metadata: &typev1.Metadata{Name: name},
		Spec:     &fleetv1.RepositorySpec{Url: "oci://registry.example/" + name, Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI},
	})
}

// imagePolicyDocument describes a policy that selects tags of the repository images.
func imagePolicyDocument(name string, change ...func(*fleetv1.ImagePolicySpec)) *fleetv1.Document {
	spec := &fleetv1.ImagePolicySpec{Repository: "images"}
	for _, change := range change {
		change(spec)
	}
	return fleetdoc.Of(&fleetv1.ImagePolicy{Metadata: &typev1.Metadata{Name: name}, Spec: spec})
}
