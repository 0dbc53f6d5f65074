// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Sentinels. Everything that a store or the Editor returns matches one of them, or one of the error
// types below, or the context's error, or is a defect.
var (
	// ErrNotFound is matched by *NotFoundError.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists is matched by *ExistsError.
	ErrAlreadyExists = errors.New("already exists")
	// ErrConflict means that the object changed since it was read.
	ErrConflict = errors.New("resource version is not current")
	// ErrUnavailable means that the store does not answer. The state in memory is still served; trying
	// again helps.
	ErrUnavailable = errors.New("catalog store unavailable")
	// ErrReplaced means that the store was restored from a backup while this replica used it. It matches
	// ErrUnavailable, and nothing helps but to start the replica again.
	ErrReplaced = fmt.Errorf("%w: it was restored from a backup while this replica used it; start the replica again", ErrUnavailable)
	// ErrUnrecorded means that a change was not made because the audit log does not take its record.
	// Trying again helps once it does.
	ErrUnrecorded = errors.New("change cannot be recorded")
	// ErrJoinTokenInvalid means that a join token was used before, has expired, or never existed.
	ErrJoinTokenInvalid = errors.New("join token invalid")
)

// NotFoundError names the object that does not exist.
type NotFoundError struct{ Key Key }

// Error implements error.
func (e *NotFoundError) Error() string {
	return e.Key.String() + " not found"
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// AmbiguousError names the services that a name without a cluster leads to, as far as the caller may
// know of them.
type AmbiguousError struct {
	Key Key
	// Services are paths, the first ones if More is true.
	Services []string
	More     bool
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	text := fmt.Sprintf("%s runs in several clusters: %s", e.Key, strings.Join(e.Names(), ", "))
	if e.More {
		text += " and others"
	}
	return text
}

// Names returns the services as people write them.
func (e *AmbiguousError) Names() []string {
	names := make([]string, len(e.Services))
	for i, path := range e.Services {
		names[i] = objectname.Display(path)
	}
	return names
}

// ExistsError names the object that exists already.
type ExistsError struct{ Key Key }

// Error implements error.
func (e *ExistsError) Error() string {
	return e.Key.String() + " already exists"
}

// Is makes errors.Is(err, ErrAlreadyExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrAlreadyExists }

// InUseError lists objects that still name an object that was to be deleted, or that a project still
// holds, as far as the caller may know of them.
type InUseError struct {
	Key Key
	By  []Key
}

// Error implements error.
func (e *InUseError) Error() string {
	switch by := strings.Join(e.Names(), ", "); {
	case len(e.By) == 0:
		return fmt.Sprintf("%s is still in use", e.Key)
	case e.Key.Kind == KindProject:
		return fmt.Sprintf("%s still holds: %s", e.Key, by)
	case e.Key.Kind == KindConfigSet:
		return fmt.Sprintf("%s is still used by: %s", e.Key, by)
	default:
		return fmt.Sprintf("%s is still named by %s: %s", e.Key, ResourceOf(e.By[0].Kind), by)
	}
}

// Names returns the objects that name it, as people read them: of a project and of a set, with their kind.
func (e *InUseError) Names() []string {
	names := make([]string, len(e.By))
	for i, key := range e.By {
		if names[i] = objectname.Display(key.Name); e.Key.Kind == KindProject {
			_, name := objectname.Split(key.Name)
			names[i] = strings.ToLower(string(key.Kind)) + "/" + name
		} else if e.Key.Kind == KindConfigSet {
			names[i] = strings.ToLower(string(key.Kind)) + "/" + names[i]
		}
	}
	return names
}

// ReferenceError names the missing object that a field refers to.
type ReferenceError struct {
	Key  Key
	Path string
	// Project is set where the object is one of another project, whose existence the error hides: it
	// may also be there and not be shared with this project.
	Project string
	// Closed is set for a back end, for which the error hides whether it does not exist or is closed
	// to the project.
	Closed bool
}

// Error implements error.
func (e *ReferenceError) Error() string {
	if e.Project != "" {
		return fmt.Sprintf("%s: %s does not exist, or its project does not share it with project %q", e.Path, e.Key, e.Project)
	}
	if e.Closed {
		return fmt.Sprintf("%s: %s does not exist, or is not open to this project", e.Path, e.Key)
	}
	return fmt.Sprintf("%s: %s does not exist", e.Path, e.Key)
}

// inDocument puts the document's place before the field that err is about, and before the text of
// any other error.
func inDocument(i int, err error) error {
	place := fielderr.Indexed("documents", i)
	if _, ok := errors.AsType[*fielderr.Error](err); ok {
		return fielderr.Within(place, err)
	}
	if e, ok := errors.AsType[*ReferenceError](err); ok {
		return &ReferenceError{Key: e.Key, Path: place + "." + e.Path, Project: e.Project, Closed: e.Closed}
	}
	return fmt.Errorf("%s: %w", place, err)
}
