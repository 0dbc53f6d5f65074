// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package encodings keeps bundles on the node's disk in other encodings than the one they are
// stored in, for clients that do not take zstd.
//
// Each is a file, so that it costs its making once, whatever the number of clients and however
// slowly they read, and so that it can be served in ranges and by the kernel. The files are made of
// what is in the cache of bundles: they are bounded, may be evicted at any time, need not be
// durable, and do not outlive the process.
package encodings

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/internal/flight"
	"github.com/leatdev/leat/services/distributor/internal/delivery/scratch"
)

const (
	defaultMaxBytes = 1 << 30
	// makers bounds how many files are made at once, each with some 17 MiB of memory and one
	// processor; others wait.
	makers = 2
	// makeTimeout bounds the making of one file, which outlives the caller that asked for it first.
	makeTimeout = 10 * time.Minute
	// openTries is how often a file is made again that was evicted before the caller came to open
	// it.
	openTries = 3
)

// Encoding says what a file holds.
type Encoding string

// The encodings.
const (
	// Plain is the canonical tar.
	Plain Encoding = "tar"
	// Gzip is the canonical tar, compressed with gzip. Equal content gives equal bytes, as long as
	// the compressor's version stays the same.
	Gzip Encoding = "gz"
)

// Config says where files are kept and how much.
type Config struct {
	// Dir is the folder; made if absent, and emptied. It must be the store's alone. Required.
	Dir string
	// MaxBytes bounds the sum of the sizes, with an upper bound for files that are being made.
	// Zero: 1 GiB.
	MaxBytes int64
}

// Source opens the stored bundle that a file is made of.
type Source func(ctx context.Context) (*cas.Blob, error)

// Store keeps the files. It is safe for concurrent use.
type Store struct {
	making *flight.Group[key, struct{}]
	slots  *semaphore.Weighted
	// files are kept with the digests of their bytes.
	files *scratch.Folder[key, digest.Digest]
}

type key struct {
	digest   digest.Digest
	encoding Encoding
}

// Name returns the name of a file.
func (k key) Name() string { return k.digest.Hex() + "." + string(k.encoding) }

// File is a file that is open for reading. It stays readable after it was evicted. Its owner closes
// it.
type File struct {
	*os.File

	// Size is the number of bytes.
	Size int64
	// Sum is the digest of the bytes themselves.
	Sum digest.Digest
}

// Open empties the folder.
func Open(cfg Config) (*Store, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	files, err := scratch.Open[key, digest.Digest](cfg.Dir, cfg.MaxBytes, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("open encodings: %w", err)
	}
	return &Store{making: flight.New[key, struct{}](makeTimeout), slots: semaphore.NewWeighted(makers), files: files}, nil
}

// Open opens the bundle d in an encoding, and makes the file of what source opens where there is
// none. Callers that miss the same file share one making, which goes on when they give up. Errors
// are those of source; digest.ErrMismatch and cas.ErrCorrupt when the bundle was damaged;
// cas.ErrFull; cas.ErrNotFound when the file was evicted before it could be opened; or the
// context's.
func (s *Store) Open(ctx context.Context, d digest.Digest, e Encoding, source Source) (*File, error) {
	k := key{digest: d, encoding: e}
	for range openTries {
		file, err := s.open(k)
		if !errors.Is(err, cas.ErrNotFound) {
			return file, err
		}
		_, err = s.making.Do(ctx, k, func(ctx context.Context) (struct{}, error) {
			if s.files.Has(k) { // the last one to make it finished between open and here
				return struct{}{}, nil
			}
			return struct{}{}, s.make(ctx, k, source)
		})
		if err != nil {
			return nil, err
		}
	}
	return s.open(k)
}

// open opens a file that is there.
func (s *Store) open(k key) (*File, error) {
	file, size, sum, err := s.files.Open(k)
	if err != nil {
		return nil, fmt.Errorf("open encoded bundle: %w", err)
	}
	return &File{File: file, Size: size, Sum: sum}, nil
}

// Usage returns how many bytes there are, those that are being written included.
func (s *Store) Usage() int64 { return s.files.Usage() }
