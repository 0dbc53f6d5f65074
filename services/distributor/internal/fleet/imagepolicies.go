// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"github.com/leatdev/leat/services/distributor/internal/fleetgit/imagesync"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// ImagePolicies is the view for image policies. It is safe for concurrent use.
type ImagePolicies struct{ View *View }

var _ imagesync.Fleet = ImagePolicies{}

// ImagePolicies implements imagesync.Fleet.
func (i ImagePolicies) ImagePolicies() []*catalog.ImagePolicy {
	c := i.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.imagePolicies.all()
}

// Repository implements imagesync.Fleet.
func (i ImagePolicies) Repository(path string) *catalog.Repository {
	repository, _ := i.View.Catalog.find(catalog.Key{Kind: catalog.KindRepository, Name: path}).(*catalog.Repository)
	return repository
}
