// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package lfs

import (
	"errors"
	"fmt"
)

// ErrAbsent means that an object is not held.
var ErrAbsent = errors.New("lfs object is not held")

// MissingError reports that the upstream does not have what a file needs. Only a push there helps.
type MissingError struct {
	Path string // the file
	OID  string
	// Said is the reason from the server, or Leat's finding; a phrase without secrets, or empty.
	Said string
}

// Error implements error.
func (e *MissingError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("lfs object %s of %q is missing upstream", e.OID, e.Path)
	}
	return fmt.Sprintf("lfs object %s of %q is missing upstream: %s", e.OID, e.Path, e.Said)
}

// FileError tells for which file an object could not be had.
type FileError struct {
	Path  string
	OID   string
	Cause error
}

// Error implements error.
func (e *FileError) Error() string {
	return fmt.Sprintf("lfs object %s of %q: %v", e.OID, e.Path, e.Cause)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Cause }

// blame reports a failure to get an object as a failure of the file that wants it.
func (w Want) blame(err error) error {
	if missing, ok := errors.AsType[*MissingError](err); ok {
		return &MissingError{Path: w.Path, OID: w.OID, Said: missing.Said}
	}
	if known, ok := errors.AsType[*FileError](err); ok {
		err = known.Cause
	}
	return &FileError{Path: w.Path, OID: w.OID, Cause: err}
}
