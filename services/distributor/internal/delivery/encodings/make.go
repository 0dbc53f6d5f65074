// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package encodings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/klauspost/compress/gzip"

	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

// gzipLevel is what most servers compress with.
const gzipLevel = 6

// make makes a file. The room for it is taken before, so that a bound holds while it grows, too.
func (s *Store) make(ctx context.Context, k key, source Source) error {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.slots.Release(1)
	blob, err := source(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }()
	reserved := mostBytes(blob.ContentSize)
	if err := s.files.Reserve(reserved); err != nil {
		return err
	}
	if err := s.write(k, blob, reserved); err != nil {
		s.files.Release(reserved)
		if noSpace(err) {
			s.files.Shed() // for the next attempt
			return fmt.Errorf("%w: %w", cas.ErrFull, err)
		}
		return fmt.Errorf("encode bundle %s: %w", k.digest, err)
	}
	return nil
}

// mostBytes bounds the length of a file: what does not compress grows by 5 bytes in each block.
func mostBytes(content int64) int64 {
	return content + content/1024 + 1024
}

// write writes a draft and publishes it, or removes it.
func (s *Store) write(k key, blob *cas.Blob, reserved int64) (err error) {
	draft, err := s.files.Create()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = draft.Close() // closed already where it came that far
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	var sum digest.Digest
	var size int64
	switch k.encoding {
	case Plain:
		sum, err = k.digest, decompress(draft, blob)
	case Gzip:
		sum, err = compress(draft, blob)
	}
	if err == nil {
		size, err = draft.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		err = draft.Close()
	}
	if err != nil {
		return err
	}
	return s.files.Put(k, draft.Name(), size, sum, reserved)
}

// decompress writes the content of a blob, and fails unless it is what the blob's digest says:
// bytes that were right once may have been damaged on the disk since.
func decompress(w io.Writer, blob *cas.Blob) error {
	content, err := bundle.Decompress(blob, blob.ContentSize)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(w, digest.NewVerifier(content, blob.Digest))
	if errors.Is(err, bundle.ErrMalformed) || errors.Is(err, bundle.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	return err
}

// compress writes the content of a blob as gzip, and returns the digest of what it wrote.
func compress(w io.Writer, blob *cas.Blob) (digest.Digest, error) {
	hasher := digest.NewHasher()
	z, err := gzip.NewWriterLevel(io.MultiWriter(w, hasher), gzipLevel)
	if err != nil {
		return digest.Digest{}, err
	}
	if err := decompress(z, blob); err != nil {
		return digest.Digest{}, err
	}
	err = z.Close()
	return hasher.Digest(), err
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
