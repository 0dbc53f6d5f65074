// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"maps"
	"slices"

	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/authz"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// checkSets returns an error if an object is to use a set that the caller may not use: what a set holds
// reaches the services that use it, and so the people who write those. The object may continue to use
// the sets that it uses already.
func (e editing) checkSets(current, next catalog.Object) error {
	known := map[string]string{}
	if current != nil {
		known = catalog.SetsNamedBy(current)
	}
	named := catalog.SetsNamedBy(next)
	for _, path := range slices.Sorted(maps.Keys(named)) {
		if _, isKnown := known[path]; isKnown || e.mayUseSet(next, path) {
			continue
		}
		key := catalog.Key{Kind: catalog.KindConfigSet, Name: path}
		if record, ok := e.view.Get(key); ok && e.sees(record.Object) {
			return e.rights.Denied(useSets, key)
		}
		return &catalog.ReferenceError{Key: key, Path: named[path]}
	}
	return nil
}

var useSets = catalog.Permission{Verb: catalog.VerbUse, Resource: catalog.ResourceConfigSets}

// mayUseSet reports whether the caller may use a set for an object. For one of another project it is
// enough to use those of the object's project; the catalog then checks that the set is shared.
func (e editing) mayUseSet(object catalog.Object, path string) bool {
	own := catalog.ProjectOf(object)
	return e.rights.Allows(useSets, authz.OfProject(objectname.Project(path))) ||
		objectname.Project(path) != own && e.rights.Allows(useSets, authz.OfProject(own))
}
