// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// rebuild makes a bundle from its base on disk and the downloaded delta. The store verifies the
// result like any other bundle.
func (b *Bundles) rebuild(ctx context.Context, d digest.Digest, part *partial) error {
	if err := b.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer b.slots.Release(1)
	base := part.is.Base
	err := b.put(ctx, d, func() (io.ReadCloser, error) { return b.rebuilt(ctx, d, part) })
	if errors.Is(err, bundle.ErrWrongBase) && ctx.Err() == nil {
		err = errors.Join(err, b.dropDamaged(ctx, base))
	}
	if err != nil {
		return fmt.Errorf("rebuild bundle from %s: %w", base, err)
	}
	b.metrics.count(ctx, resultDelta)
	return part.remove()
}

// rebuilt returns the zstd bytes of the bundle while they are produced. Close ends the production.
func (b *Bundles) rebuilt(ctx context.Context, d digest.Digest, part *partial) (io.ReadCloser, error) {
	base, err := b.read(ctx, part.is.Base)
	if err != nil {
		return nil, err
	}
	packed, err := part.content()
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	delta, err := bundle.Decompress(packed, bundle.DeltaLimit(bundle.Limits{}))
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	reader, writer := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := apply(writer, bundle.Tar{Digest: part.is.Base, Content: base}, d, delta)
		_ = writer.CloseWithError(errors.Join(err, delta.Close(), base.Close())) // never fails
	}()
	return &rebuilding{PipeReader: reader, done: done}, nil
}

func apply(w io.Writer, base bundle.Tar, to digest.Digest, delta io.Reader) error {
	compressed, err := bundle.Compress(w)
	if err != nil {
		return err
	}
	err = bundle.ApplyDelta(compressed, base, to, delta, bundle.Limits{})
	if err != nil {
		return err // without the end of the stream, which could be taken for the bundle's
	}
	return compressed.Close()
}

// rebuilding is a pipe whose writer has ended when Close returns.
type rebuilding struct {
	*io.PipeReader
	done <-chan struct{}
}

// Close implements io.Closer.
func (r *rebuilding) Close() error {
	err := r.PipeReader.Close()
	<-r.done
	return err
}

// dropDamaged verifies a base to which a delta could not be applied.
func (b *Bundles) dropDamaged(ctx context.Context, base digest.Digest) error {
	b.mu.Lock()
	delete(b.checked, base)
	b.mu.Unlock()
	blob, err := b.params.Store.Open(ctx, base)
	if errors.Is(err, cas.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, wrong := cas.Check(ctx, io.Discard, blob, base, bundle.DefaultLimits().Bytes)
	if wrong != nil && ctx.Err() == nil {
		b.metrics.count(ctx, resultDamaged)
		err = b.params.Store.Delete(ctx, base)
	}
	return errors.Join(err, blob.Close())
}
