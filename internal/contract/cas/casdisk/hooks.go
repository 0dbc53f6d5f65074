// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"errors"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// ErrInUse means that another process uses the folder.
var ErrInUse = errors.New("store folder is in use by another process")

// Hooks allow others to observe a Store, and tests to break it. Each may be nil. They may be called
// concurrently and with the store locked, so they must be quick and must not call the store.
type Hooks struct {
	// Evicted is called after a blob has been removed to make room.
	Evicted func(cas.Info)
	// Corrupt is called after a damaged blob has been removed.
	Corrupt func(digest.Digest, error)
	// Scrubbed is called after a blob has been read again and found intact. StoredDigest may be
	// missing.
	Scrubbed func(cas.Info)
	// Fault is called before each operation on the disk. An error that it returns replaces the
	// operation.
	Fault func(op Op, path string) error
	// Damage receives the bytes of each OpWrite, OpRead and OpServe, and returns the bytes that
	// replace them: others, or fewer. It may change them in place. Copies made by the kernel, see
	// cas.Blob, bypass it.
	Damage func(op Op, path string, p []byte) []byte
	// Space replaces the call that asks the file system for its free and total bytes.
	Space func() (free, total int64)
}

// Op names an operation on the disk.
type Op string

// The operations that pass Hooks.Fault. The store makes no others.
const (
	OpMkdir   Op = "mkdir"
	OpLock    Op = "lock"    // the folder
	OpList    Op = "list"    // a folder
	OpCreate  Op = "create"  // a temporary file
	OpWrite   Op = "write"   // a piece of a blob
	OpSync    Op = "sync"    // a blob's bytes
	OpRename  Op = "rename"  // into place
	OpSyncDir Op = "syncdir" // a folder in which something has been made
	OpOpen    Op = "open"    // for reading
	OpStat    Op = "stat"
	OpRead    Op = "read"  // a piece of a blob, to verify it
	OpServe   Op = "serve" // a piece of a blob, for a caller of Open
	OpRemove  Op = "remove"
	OpTouch   Op = "touch" // set a file's time
	OpSpace   Op = "space" // ask how much room the file system has
)
