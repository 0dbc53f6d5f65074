// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cas

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
)

// DefaultMaxContentBytes is the default bound on one content: the largest bundle.
const DefaultMaxContentBytes int64 = 256 << 20

// Check copies the zstd bytes of r to w and verifies on the way that they decompress to the content
// called want, of at most maxContent bytes. Every implementation of [Store] calls it: before Put
// publishes the bytes of w, and again when bytes come back from a disk that may have changed them.
//
// Errors match digest.ErrMismatch, [ErrCorrupt] or [ErrTooLarge], or wrap the errors of r, w and
// ctx. w has then received some of the bytes.
func Check(ctx context.Context, w io.Writer, r io.Reader, want digest.Digest, maxContent int64) (Info, error) {
	sum := digest.NewHasher()
	stored := &meter{ctx: ctx, in: io.TeeReader(r, io.MultiWriter(sum, w)), max: maxStored(maxContent)}
	content, err := bundle.Decompress(stored, maxContent)
	if err != nil {
		return Info{}, translate(err)
	}
	defer content.Close()
	n, err := io.Copy(io.Discard, digest.NewVerifier(content, want))
	if err != nil {
		return Info{}, translate(err)
	}
	return Info{Digest: want, StoredSize: stored.n, ContentSize: n, StoredDigest: sum.Digest()}, nil
}

// maxStored bounds the zstd bytes of a content. Compression never adds more than 3 bytes per 128
// KiB and a frame around it, but a stream may also hold skippable frames, which cost disk and have
// no content.
func maxStored(maxContent int64) int64 {
	return maxContent + maxContent/1024 + 64<<10
}

// translate maps the errors of package bundle to this package's.
func translate(err error) error {
	switch {
	case errors.Is(err, bundle.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, bundle.ErrMalformed):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	default:
		return err
	}
}

// meter counts and bounds the bytes that are read, and stops when the context is done.
type meter struct {
	ctx context.Context //nolint:containedctx // io.Reader has no other way to be cancelled
	in  io.Reader
	n   int64
	max int64
}

func (m *meter) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.in.Read(p)
	m.n += int64(n)
	if m.n > m.max {
		return n, fmt.Errorf("%w: more than %d compressed bytes", ErrTooLarge, m.max)
	}
	return n, err
}
