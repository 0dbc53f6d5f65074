// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	optionsv1 "github.com/leatdev/leat/gen/go/leat/options/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/permission"
	"github.com/leatdev/leat/services/distributor/internal/access/authz"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// checkUses returns an error if a document of a project is to use what the caller may not use. It may
// continue to use what it uses already.
func (e editing) checkUses(from, to protoreflect.Message, project string) error {
	known, err := usesIn(from, project)
	if err != nil {
		return err
	}
	uses, err := usesIn(to, project)
	if err != nil {
		return err
	}
	for _, use := range catalog.NewUses(known, uses) {
		if !e.mayUse(use) {
			return e.refusedUse(use)
		}
	}
	return nil
}

// usesIn returns what a document uses, by the options of its fields.
func usesIn(document protoreflect.Message, project string) ([]catalog.Use, error) {
	var uses []catalog.Use
	for _, text := range permission.Texts(document) {
		if text.Needs == optionsv1.Edit_EDIT_USE_REFERENCE {
			if use, ok := catalog.UseOfReference(project, text.Path, text.Value); ok {
				uses = append(uses, use)
			}
			continue
		}
		kind := catalog.KindConfigSet
		if text.Needs == optionsv1.Edit_EDIT_USE_REPOSITORY {
			kind = catalog.KindRepository
		}
		path, err := objectname.Parse(text.Path, text.Value, project)
		if err != nil {
			return nil, err
		}
		uses = append(uses, catalog.Use{Key: catalog.Key{Kind: kind, Name: path}, Project: project, Field: text.Path})
	}
	return uses, nil
}

// mayUse reports whether the caller has the permission where the object is. For an object of another
// project it is enough to have it in the document's: the catalog then checks that the object is shared
// with that project.
func (e editing) mayUse(use catalog.Use) bool {
	p := use.Permission()
	return e.caller.rights.Allows(p, ownerOf(use)) || use.IsForeign() && e.caller.rights.Allows(p, authz.OfProject(use.Project))
}

// ownerOf returns where the permission for a use counts. Back ends belong to no project: they are open
// to projects, and the people of the document's project use them.
func ownerOf(use catalog.Use) authz.Object {
	if use.Key.Kind == catalog.KindRepository {
		return authz.OfRepository(use.Key.Name)
	}
	if use.Key.Kind.InProject() {
		return authz.OfProject(objectname.Project(use.Key.Name))
	}
	return authz.OfProject(use.Project)
}

// refusedUse returns the error for a use, which does not disclose an object that the caller may not see.
// For a back end it is the same whether it exists or not.
func (e editing) refusedUse(use catalog.Use) error {
	if use.Key.Kind == catalog.KindConfigBackend {
		return e.caller.rights.Denied(use.Permission(), catalog.Key{Kind: catalog.KindProject, Name: use.Project})
	}
	if record, ok := e.caller.view.Records.Get(use.Key); ok && e.caller.sees(record.Object) {
		return e.caller.rights.Denied(use.Permission(), use.Key)
	}
	return &catalog.ReferenceError{Key: use.Key, Path: use.Field}
}
