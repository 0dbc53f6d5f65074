// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import "github.com/leatdev/leat/services/distributor/internal/spine/catalog"

// ConfigBackends is the view for the reader of configuration back ends. It is safe for concurrent
// use.
type ConfigBackends struct{ View *View }

// ConfigBackends returns the back ends by name, without credentials.
func (b ConfigBackends) ConfigBackends() []*catalog.ConfigBackend {
	c := b.View.Catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.contents.backends.all()
}
