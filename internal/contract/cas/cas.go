// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cas declares a content-addressed store of compressed bundles.
//
// A blob is kept as the zstd bytes it came in and is named by the digest of the content that those
// bytes decompress to. Its name is thus independent of the compressor, and serving a blob never
// requires compressing it again.
//
// The store is a cache: it is bounded, it may forget a blob at any time between two calls, and
// everything in it can be fetched or built again. It must never return bytes that do not match
// their digest.
//
// Package casdisk keeps blobs in a folder, casmem keeps them in memory; castest proves both.
package cas

import (
	"context"
	"errors"
	"io"

	"github.com/leatdev/leat/internal/contract/digest"
)

var (
	// ErrNotFound means that the store does not hold the blob: it was never put, was evicted or
	// deleted, or its bytes were found damaged and dropped. The response is always the same: fetch
	// the content again and put it.
	ErrNotFound = errors.New("blob not found")
	// ErrFull means that there is no room for the blob even after evicting everything that may be
	// evicted. Blobs already stored are still served. Retrying helps once pins are gone or blobs
	// were deleted.
	ErrFull = errors.New("store is full")
	// ErrTooLarge means that a blob exceeds the store's limit for a single one. Retrying cannot
	// help.
	ErrTooLarge = errors.New("blob too large")
	// ErrCorrupt means that the bytes passed to Put are not a valid zstd stream. A store never
	// returns it for its own bytes.
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
	// StoredDigest names the zstd bytes themselves, which differ from one compressor to the next. A
	// strong HTTP validator of these very bytes is made from it. Put and Open always set it. Stat
	// leaves it zero until the store has read a blob that an earlier process left.
	StoredDigest digest.Digest
}

// Blob is a stored blob that is open for reading: its zstd bytes, StoredSize of them, immutable.
// The reader starts at the first byte; it is for one goroutine at a time, and its owner closes it.
// It stays readable after the blob has been evicted or deleted.
//
// To serve a blob over HTTP, hand the embedded ReadSeekCloser to http.ServeContent, not the Blob.
// The reader of casdisk is also a syscall.Conn, which lets the kernel do the copying.
type Blob struct {
	Info
	io.ReadSeekCloser
}

// Usage reports how full a store is.
type Usage struct {
	// Bytes is the sum of the stored sizes, including blobs that are being written.
	Bytes int64
	// MaxBytes is the bound on Bytes.
	MaxBytes int64
	// Blobs is the number of complete blobs.
	Blobs int
}

// Store keeps blobs by digest. All methods may be called concurrently, for the same digest too.
type Store interface {
	// Put stores the zstd bytes of r under want. It decompresses them on the way and keeps nothing
	// unless the content hashes to want. When Put returns nil the blob is durable, as far as the
	// store is durable at all, and Open finds it. A blob becomes visible at once and whole, or not
	// at all.
	//
	// Put is idempotent. If the store already holds a verified blob of that name, Put returns that
	// blob's Info, which may differ from r's in StoredSize, and may leave r unread.
	//
	// Errors: digest.ErrMismatch (content is not want), ErrCorrupt (not zstd, or cut off),
	// ErrTooLarge, ErrFull; the context's error; any error of r.
	Put(ctx context.Context, want digest.Digest, r io.Reader) (Info, error)

	// Begin announces a blob, which others can then read while it grows. It never fails and
	// allocates no resources: the draft's Fill reports every error.
	Begin(want digest.Digest) *Draft

	// Open opens a blob for reading and counts as a read of it for eviction. A blob whose bytes do
	// not match their digest is dropped and reported as ErrNotFound: damaged bytes are never
	// returned, and damage looks like absence to the caller.
	Open(ctx context.Context, d digest.Digest) (*Blob, error)

	// Stat describes a blob without counting as a read and without checking its bytes. Error:
	// ErrNotFound.
	Stat(ctx context.Context, d digest.Digest) (Info, error)

	// Delete removes a blob, pinned or not. Removing an absent blob is not an error.
	Delete(ctx context.Context, d digest.Digest) error

	// Usage reports how full the store is.
	Usage(ctx context.Context) (Usage, error)
}
