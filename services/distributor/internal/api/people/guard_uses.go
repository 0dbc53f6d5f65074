// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/services/distributor/internal/authz"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

// checkUses returns an error if a document is to use what the caller may not use. It may continue to use
// what it uses already.
func (e editing) checkUses(current, next catalog.Object) error {
	for _, use := range catalog.UsesOf(current, next) {
		if !e.mayUse(use) {
			return e.refusedUse(use)
		}
	}
	return nil
}

// mayUse reports whether the caller has the permission where the object is. For an object of another
// project it is enough to have it in the document's: the catalog then checks that the object is shared
// with that project.
func (e editing) mayUse(use catalog.Use) bool {
	p := use.Permission()
	return e.rights.Allows(p, ownerOf(use)) || use.IsForeign() && e.rights.Allows(p, authz.OfProject(use.Project))
}

// ownerOf returns where the permission for a use counts. Back ends belong to no project: they are open
// to projects, and the people of the document's project use them.
func ownerOf(use catalog.Use) authz.Object {
	switch use.Key.Kind { //nolint:exhaustive // nothing else is used
	case catalog.KindRepository:
		return authz.OfRepository(use.Key.Name)
	case catalog.KindConfigSet:
		return authz.OfProject(objectname.Project(use.Key.Name))
	}
	return authz.OfProject(use.Project)
}

// refusedUse returns the error for a use, which does not disclose an object that the caller may not see.
// For a back end it is the same whether it exists or not.
func (e editing) refusedUse(use catalog.Use) error {
	if use.Key.Kind == catalog.KindConfigBackend {
		return e.rights.Denied(use.Permission(), catalog.Key{Kind: catalog.KindProject, Name: use.Project})
	}
	if record, ok := e.view.Get(use.Key); ok && e.sees(record.Object) {
		return e.rights.Denied(use.Permission(), use.Key)
	}
	return &catalog.ReferenceError{Key: use.Key, Path: use.Field}
}
