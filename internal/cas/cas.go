// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cas declares a content-addressed store of compressed bundles.
//
// A blob is kept as the zstd bytes it came in and is named by the digest of what those bytes
// decompress to. Its name is thus independent of the compressor, and whoever serves a blob never
// has to compress it again.
//
// The store is a cache: it is bounded, it may forget a blob at any time between two calls, and
// everything in it can be fetched or built again. What it must never do is hand out bytes that are
// not what their digest says.
//
// Package casdisk keeps blobs in a folder, casmem keeps them in memory; castest proves both.
package cas

import (
	"context"
	"errors"
	"io"

	"github.com/leatdev/leat/internal/digest"
)

var (
	// ErrNotFound means that the store does not hold the blob: it was never put, was evicted or
	// deleted, or its bytes were found damaged and dropped. The answer to it is always the same:
	// fetch the content again and put it.
	ErrNotFound = errors.New("blob not found")
	// ErrFull means that there is no room for the blob even after everything that may be evicted
	// has been. Blobs already stored are still served. Trying again helps once pins are gone or
	// somebody made room.
	ErrFull = errors.New("store is full")
	// ErrTooLarge means that a blob exceeds what the store takes for a single one; trying again
	// cannot help.
	ErrTooLarge = errors.New("blob too large")
	// ErrCorrupt means that bytes given to Put are no valid zstd stream. A store never returns it
	// for its own bytes.
	ErrCorrupt = errors.New("blob is not valid zstd")
)

// Info describes a stored blob.
type Info struct {
	// Digest names the decompressed content.
	Digest digest.Digest
	// StoredSize is the number of zstd bytes: what the blob costs on disk and on the wire.
	StoredSize int64
	// ContentSize is the number of bytes after decompression.
	ContentSize int64
	// StoredDigest names the zstd bytes themselves, which differ from one compressor to the next:
	// it is what a strong validator of these very bytes is made of. Put and Open always tell it;
	// with Stat it is zero while a store has not read a blob that an earlier process left.
	StoredDigest digest.Digest
}

// Blob is a stored blob that is open for reading: its zstd bytes, StoredSize of them, immutable.
// The reader starts at the first byte; it is for one goroutine at a time, and its owner closes it.
// It stays readable after the blob has been evicted or deleted.
//
// To serve one over HTTP hand the embedded ReadSeekCloser to http.ServeContent, not the Blob: that
// of casdisk is a syscall.Conn, too, by which the kernel does the copying.
type Blob struct {
	Info
	io.ReadSeekCloser
}

// Usage tells how full a store is.
type Usage struct {
	// Bytes is the sum of the stored sizes, blobs that are being written included.
	Bytes int64
	// MaxBytes is the bound that Bytes is kept under.
	MaxBytes int64
	// Blobs is the number of complete blobs.
	Blobs int
}

// Store keeps blobs by digest. All methods may be called concurrently, for the same digest too.
type Store interface {
	// Put stores the zstd bytes of r under want. It decompresses them on the way and keeps nothing
	// unless the content hashes to want. When Put returns nil the blob is durable, as far as the
	// store is durable at all, and Open finds it. Nobody ever sees half a blob: the blob appears at
	// once and whole, or not at all.
	//
	// Put is idempotent. Where the store already holds a verified blob of that name it returns that
	// one's Info, which may differ from r's in StoredSize, and may leave r unread.
	//
	// Errors: digest.ErrMismatch (content is not want), ErrCorrupt (not zstd, or cut off),
	// ErrTooLarge, ErrFull; the context's error; any error of r.
	Put(ctx context.Context, want digest.Digest, r io.Reader) (Info, error)

	// Begin announces a blob, which others can then read while it grows. It never fails and costs
	// nothing by itself: what is wrong shows in the draft's Fill.
	Begin(want digest.Digest) *Draft

	// Open opens a blob for reading and counts as a read of it for eviction. A blob whose bytes do
	// not match their digest is dropped and reported as ErrNotFound: damage is never passed on, and
	// looks like absence to the caller.
	Open(ctx context.Context, d digest.Digest) (*Blob, error)

	// Stat describes a blob without counting as a read and without checking its bytes. Error:
	// ErrNotFound.
	Stat(ctx context.Context, d digest.Digest) (Info, error)

	// Delete removes a blob, pinned or not. Removing one that is not there is no error.
	Delete(ctx context.Context, d digest.Digest) error

	// Usage tells how full the store is.
	Usage(ctx context.Context) (Usage, error)
}
