// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the format's own checksum, against accidents
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Verify reads a pack and its index whole and makes sure that both match their checksums and one
// another. An error matches ErrMalformed where they do not.
func Verify(ctx context.Context, path string) error {
	index, err := ReadIndex(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return fmt.Errorf("verify pack: %w", err)
	}
	if err := verifySum(ctx, path, index.sum()); err != nil {
		return fmt.Errorf("verify pack: %w", err)
	}
	return nil
}

// verifySum makes sure that a file ends with sum, and that sum is the checksum of what stands
// before it.
func verifySum(ctx context.Context, path string, sum []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	hash, end := sha1.New(), make([]byte, sumSize) //nolint:gosec // the format's own
	_, err = io.Copy(hash, io.NewSectionReader(reader(ctx, f), 0, info.Size()-sumSize))
	if err != nil {
		return err
	}
	if _, err := f.ReadAt(end, info.Size()-sumSize); err != nil {
		return err
	}
	if !bytes.Equal(hash.Sum(nil), sum) || !bytes.Equal(end, sum) {
		return fmt.Errorf("%w: %s does not match its checksum", ErrMalformed, filepath.Base(path))
	}
	return nil
}

type contextReaderAt struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	f   io.ReaderAt
}

func reader(ctx context.Context, f io.ReaderAt) io.ReaderAt { return contextReaderAt{ctx, f} }

func (r contextReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.f.ReadAt(p, at)
}
