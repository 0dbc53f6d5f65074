// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fielderr has the error that names the field of a value which is not acceptable.
//
// A value validates itself and names the field from its own place. Its holder puts its own field
// before that, so the caller of an RPC reads the whole path, such as spec.sources[0].path.
package fielderr

import (
	"errors"
	"fmt"
	"strings"
)

// Error names a field that is not acceptable.
type Error struct {
	// Path is the field in the protocol's spelling, from the value that was validated, such as
	// depends_on[0].service. Empty: the whole value.
	Path string
	// Message is a phrase that follows the path.
	Message string

	cause error
}

// Error implements error.
func (e *Error) Error() string { return strings.TrimPrefix(e.Path+": "+e.Message, ": ") }

// Unwrap returns the error that New was given for %w, or nil.
func (e *Error) Unwrap() error { return e.cause }

// At returns the same error for another path.
func (e *Error) At(path string) *Error {
	moved := *e
	moved.Path = path
	return &moved
}

// New returns an Error with a message of a format and its arguments, as fmt.Errorf makes it: it wraps
// the argument of %w.
func New(path, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Path: path, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Within puts path before the path of an Error. It returns other errors unchanged.
func Within(path string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.At(strings.TrimSuffix(path+"."+e.Path, "."))
	}
	return err
}

// Each validates the elements of a list of at most limit elements. The plural names them in
// messages, such as "rules". Several checks are joined by cmp.Or, which returns the first error.
func Each[T any](path, plural string, list []T, limit int, validate func(path string, element T) error) error {
	if len(list) > limit {
		return New(path, "has %d %s; at most %d are allowed", len(list), plural, limit)
	}
	for i, element := range list {
		if err := validate(Indexed(path, i), element); err != nil {
			return err
		}
	}
	return nil
}

// Indexed returns the path of an element of a list.
func Indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
