// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/fielderr"
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
	// ErrUnavailable means that the store does not answer. What is in memory goes on being served;
	// trying again helps.
	ErrUnavailable = errors.New("catalog store unavailable")
	// ErrJoinTokenInvalid means that a join token was used before, has expired, or never existed.
	ErrJoinTokenInvalid = errors.New("join token invalid")
)

// NotFoundError names the object that does not exist.
type NotFoundError struct{ Key Key }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %q not found", strings.ToLower(string(e.Key.Kind)), e.Key.Name)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// ExistsError names the object that exists already.
type ExistsError struct{ Key Key }

// Error implements error.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s %q already exists", strings.ToLower(string(e.Key.Kind)), e.Key.Name)
}

// Is makes errors.Is(err, ErrAlreadyExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrAlreadyExists }

// InUseError lists the services that still name an object that was to be deleted.
type InUseError struct {
	Key Key
	By  []string
}

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("%s %q is still named by services: %s", strings.ToLower(string(e.Key.Kind)), e.Key.Name, strings.Join(e.By, ", "))
}

// ReferenceError names the missing object that a field refers to.
type ReferenceError struct {
	Key  Key
	Path string
}

// Error implements error.
func (e *ReferenceError) Error() string {
	return fmt.Sprintf("%s: %s %q does not exist", e.Path, strings.ToLower(string(e.Key.Kind)), e.Key.Name)
}

// inDocument puts the document's place before the field that err is about, and before the text of
// any other error.
func inDocument(i int, err error) error {
	place := fielderr.Indexed("documents", i)
	if _, ok := errors.AsType[*fielderr.Error](err); ok {
		return fielderr.Within(place, err)
	}
	if e, ok := errors.AsType[*ReferenceError](err); ok {
		return &ReferenceError{Key: e.Key, Path: place + "." + e.Path}
	}
	return fmt.Errorf("%s: %w", place, err)
}
