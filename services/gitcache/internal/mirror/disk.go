// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"time"
)

// Disk is the folder of this replica's mirrors. Its methods may be called concurrently, Compact for different mirrors only.
type Disk interface {
	// Stored lists all mirrors by UID, those included that belong to no repository known here.
	Stored() []Stored
	// Usage tells how full the folder is.
	Usage() Usage
	// Compact makes a mirror take fewer and smaller files where that is worth while; its content stays. Meanwhile it may
	// be read, fetched into and copied to. At the end enter is called, and then what it returned: nobody else may write
	// the mirror in between. Nothing to do is no error, and a Compaction without packs.
	Compact(ctx context.Context, uid string, enter func(context.Context) (leave func(), err error)) (Compaction, error)
}

// Stored is a mirror on disk.
type Stored struct {
	UID   string
	Bytes int64
	// ReadAt is when it was last opened for reading; zero: not since the process started.
	ReadAt time.Time
}

// Usage is how full the folder of mirrors is.
type Usage struct {
	Bytes int64
	Limit int64 // zero: there is none
	Packs int   // of all mirrors that are in use
}

// Compaction tells what became of a mirror's files.
type Compaction struct {
	PacksBefore, PacksAfter int
	BytesBefore, BytesAfter int64
	// Full: what no ref reaches any more is gone too.
	Full bool
	Took time.Duration
}

// Named tells which repositories are defined anywhere in the hub.
type Named interface {
	// Named returns their UIDs, those included whose definitions cannot be read here. False: nobody can tell for certain
	// now, as while what replicas share does not answer, or has lost its memory.
	Named() (uids map[string]bool, sure bool)
}
