// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bundle writes and reads the canonical form of a folder: one tar stream per content, byte
// for byte.
//
// A folder has exactly one canonical tar, no matter which writer makes it, on which machine, or
// when. The SHA-256 of that tar is the folder's digest. The [Writer] refuses to write anything
// else, and the [Reader] refuses to read anything else: it encodes again what it parsed and
// compares the bytes. Accepted bytes are therefore both safe (no absolute names, no "..", nothing
// that leaves the folder through a symbolic link) and canonical (no second archive with the same
// files and another digest). The format is written down in docs/reference/protocol/bundle.md.
//
// On the wire and on disk the tar travels compressed; see [Compress] and [Decompress]. The
// compressed bytes have no identity: another compressor, or another version of one, may produce
// others for the same digest.
package bundle

import (
	"cmp"
	"errors"
	"fmt"
)

// MediaType names a compressed bundle in HTTP and on the wire.
const MediaType = "application/vnd.leat.bundle.v1.tar+zstd"

// MaxNameBytes is the longest name, and the longest symbolic link target, that a bundle can hold.
const MaxNameBytes = 4096

const (
	defaultBytes     = 256 << 20
	defaultFiles     = 20_000
	defaultFileBytes = 32 << 20
)

// Limits bound what one bundle may cost. A field that is zero or negative takes its default, so
// that the zero Limits are the same as [DefaultLimits]: there is no way to ask for "unlimited" by
// forgetting a field.
type Limits struct {
	// Bytes is the longest canonical tar, headers, padding and trailer included. Default: 256 MiB.
	Bytes int64
	// Files is the largest number of entries, files and symbolic links together. Default: 20 000.
	Files int
	// FileBytes is the largest content of one file. Default: 32 MiB.
	FileBytes int64
}

// DefaultLimits returns 256 MiB, 20 000 entries and 32 MiB a file.
func DefaultLimits() Limits {
	return Limits{Bytes: defaultBytes, Files: defaultFiles, FileBytes: defaultFileBytes}
}

// WithDefaults returns the limits with each unset field replaced by its default.
func (l Limits) WithDefaults() Limits {
	fallback := DefaultLimits()
	l.Bytes = cmp.Or(max(l.Bytes, 0), fallback.Bytes)
	l.Files = cmp.Or(max(l.Files, 0), fallback.Files)
	l.FileBytes = cmp.Or(max(l.FileBytes, 0), fallback.FileBytes)
	return l
}

// check returns an error if an entry, as number files of a tar, would take the tar past a limit. Its
// content begins at the offset.
func (l Limits) check(e Entry, files int, offset int64) error {
	switch {
	case files > l.Files:
		return &LimitError{Limit: LimitFiles, Max: int64(l.Files), Name: e.Name}
	case e.Size > l.FileBytes:
		return &LimitError{Limit: LimitFileBytes, Max: l.FileBytes, Name: e.Name}
	case offset+e.Size+padding(e.Size)+trailerSize > l.Bytes:
		return &LimitError{Limit: LimitBytes, Max: l.Bytes, Name: e.Name}
	}
	return nil
}

// Entry is one regular file or one symbolic link. Folders have no entry of their own: they exist
// because a file is below them.
type Entry struct {
	// Name is the path below the folder: UTF-8, elements separated by "/", without a leading slash,
	// "." or "..".
	Name string
	// Executable reports whether the mode is 0755 rather than 0644. Always false for a symbolic
	// link.
	Executable bool
	// Size is the number of bytes of a file's content. Always 0 for a symbolic link.
	Size int64
	// Target is where a symbolic link points to, relative to the folder that holds the link. Empty
	// for a file.
	Target string
}

// IsSymlink reports whether the entry is a symbolic link rather than a regular file.
func (e Entry) IsSymlink() bool {
	return e.Target != ""
}

var (
	// ErrMalformed is matched by errors about content that no bundle may hold, and about bytes that
	// are not a canonical bundle. Retrying with the same content cannot help. The error is an
	// [*EntryError] if a single entry is at fault.
	ErrMalformed = errors.New("malformed bundle")
	// ErrTooLarge is matched by every [*LimitError].
	ErrTooLarge = errors.New("bundle too large")
)

// EntryError reports which entry of a bundle is invalid, and why. It matches [ErrMalformed].
type EntryError struct {
	Name   string // the entry as it was named, possibly hostile: quote it
	Reason string // the defect, as a phrase that follows the name
}

// Error implements error.
func (e *EntryError) Error() string {
	return fmt.Sprintf("%v: entry %q %s", ErrMalformed, e.Name, e.Reason)
}

// Is makes errors.Is(err, ErrMalformed) true.
func (e *EntryError) Is(target error) bool {
	return target == ErrMalformed
}

// Limit names one of the [Limits] in a [LimitError].
type Limit string

// The limits a bundle can exceed.
const (
	LimitBytes     Limit = "bytes"      // the whole tar
	LimitFiles     Limit = "files"      // the number of entries
	LimitFileBytes Limit = "file bytes" // one file's content
	LimitNameBytes Limit = "name bytes" // one name or link target; see MaxNameBytes
)

// LimitError reports which limit a bundle exceeds. It matches [ErrTooLarge].
type LimitError struct {
	Limit Limit
	Max   int64  // the limit's value, in its own unit
	Name  string // the entry that exceeded it; empty if no single entry did
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%v: more than %d %s", ErrTooLarge, e.Max, e.Limit)
	}
	return fmt.Sprintf("%v: more than %d %s at entry %q", ErrTooLarge, e.Max, e.Limit, e.Name)
}

// Is makes errors.Is(err, ErrTooLarge) true.
func (e *LimitError) Is(target error) bool {
	return target == ErrTooLarge
}
