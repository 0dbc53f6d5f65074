// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"

	"github.com/leatdev/leat/internal/contract/objectname"
)

// stored returns an object as stored, and the project default even if it was never written.
func stored(ctx context.Context, tx Reader, key Key) (Object, error) {
	object, err := tx.Get(ctx, key)
	if errors.Is(err, ErrNotFound) && key == DefaultProject().Key() {
		return DefaultProject(), nil
	}
	return object, err
}

// ownProject returns the project of an object, by the object's name.
func ownProject(ctx context.Context, tx Reader, name string) (*Project, error) {
	key := Key{KindProject, objectname.Project(name)}
	object, err := stored(ctx, tx, key)
	if errors.Is(err, ErrNotFound) {
		return nil, &ReferenceError{Key: key, Path: projectField}
	}
	if err != nil {
		return nil, err
	}
	project, ok := object.(*Project)
	if !ok {
		return nil, &ReferenceError{Key: key, Path: projectField}
	}
	return project, nil
}

// referred returns the object that the field at path of an object of the project names. One of another
// project has to be shared with this one.
func (p *Project) referred(ctx context.Context, tx Reader, key Key, path string) (Object, error) {
	object, err := tx.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err := p.mayName(key, object, path, func(name string) (*Project, error) { return ownProject(ctx, tx, name) }); err != nil {
		return nil, err
	}
	return object, nil
}

// mayName returns an error unless the field at path of an object of the project may name an object, which is
// nil if it does not exist. projectOf returns the project of an object, by the object's name.
func (p *Project) mayName(key Key, object Object, path string, projectOf func(name string) (*Project, error)) error {
	project, name := objectname.Split(key.Name)
	if project == p.Name {
		if object == nil {
			return &ReferenceError{Key: key, Path: path}
		}
		return nil
	}
	// Both answers are the same, so that they do not disclose what another project has.
	missing := &ReferenceError{Key: key, Path: path, Project: p.Name}
	if object == nil {
		return missing
	}
	owner, err := projectOf(key.Name)
	if err != nil {
		return err
	}
	if !owner.shares(p, key.Kind, name, object.Meta().Labels) {
		return missing
	}
	return nil
}

// checkRoomInProject checks that the project of a new object exists, and has room for it.
func checkRoomInProject(ctx context.Context, tx Reader, object Object) error {
	if !object.Key().Kind.InProject() {
		return nil
	}
	own, err := ownProject(ctx, tx, object.Meta().Name)
	if err != nil {
		return err
	}
	room := object.room(own.Spec.Quotas)
	if room == (Room{}) {
		return nil
	}
	has, err := tx.Count(ctx, own.Name, object.Key().Kind)
	if err != nil {
		return err
	}
	return room.check(own.Name, object.Key().Kind, has)
}
