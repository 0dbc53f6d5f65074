// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The window sizes bound the memory of both sides. HTTP clients must accept 8 MiB (RFC 9659) and
// need not accept more. The encoder uses half of that, because a hub that builds many bundles at
// once holds the window twice per bundle.
const (
	encoderWindow = 4 << 20
	decoderWindow = 8 << 20
)

// Compress returns a writer that compresses to w with zstd, about level 3. It runs on the caller's
// goroutine: a hub compresses many bundles in parallel, and none with several goroutines. Close
// ends the stream and must be called for the stream to be readable. Close does not close w.
func Compress(w io.Writer) (io.WriteCloser, error) {
	return newEncoder(w)
}

func newEncoder(w io.Writer) (*zstd.Encoder, error) {
	encoder, err := zstd.NewWriter(w,
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(encoderWindow),
	)
	if err != nil {
		return nil, fmt.Errorf("start compressing: %w", err)
	}
	return encoder, nil
}

// Compressor compresses as [Compress] does, and keeps the memory of one stream, some 10 MiB, for
// the next: most bundles are much smaller than that. The zero value is ready. It may be used
// concurrently.
type Compressor struct {
	free sync.Pool // of *zstd.Encoder
}

// Compress returns a writer like that of the function [Compress].
func (c *Compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	if encoder, ok := c.free.Get().(*zstd.Encoder); ok {
		encoder.Reset(w)
		return &borrowed{from: c, encoder: encoder}, nil
	}
	encoder, err := newEncoder(w)
	if err != nil {
		return nil, err
	}
	return &borrowed{from: c, encoder: encoder}, nil
}

// borrowed is a writer that returns its encoder to the pool when it is closed.
type borrowed struct {
	from    *Compressor
	encoder *zstd.Encoder // nil once closed
}

// Write implements io.Writer.
func (b *borrowed) Write(p []byte) (int, error) {
	if b.encoder == nil {
		return 0, io.ErrClosedPipe
	}
	return b.encoder.Write(p)
}

// Close implements io.Closer.
func (b *borrowed) Close() error {
	if b.encoder == nil {
		return nil
	}
	encoder := b.encoder
	b.encoder = nil
	err := encoder.Close()
	encoder.Reset(nil) // releases the writer
	b.from.free.Put(encoder)
	return err
}

// Decompress returns a reader of the content that the zstd stream r holds. It reads r to its end,
// on the caller's goroutine, and uses at most about 16 MiB of memory whatever window the stream
// requests. Reads fail with
//
//   - a [*LimitError] if the content is longer than limit bytes;
//   - an error that matches [ErrMalformed] if r is not a zstd stream, is damaged or is cut off;
//   - the error of r, wrapped.
//
// Close frees the memory and does not close r.
func Decompress(r io.Reader, limit int64) (io.ReadCloser, error) {
	source := &watchedReader{in: r}
	decoder, err := zstd.NewReader(source,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(decoderWindow),
	)
	if err != nil {
		return nil, fmt.Errorf("start decompressing: %w", source.blame(err))
	}
	return &decompressor{source: source, decoder: decoder, limit: limit, left: limit}, nil
}

type decompressor struct {
	source  *watchedReader
	decoder *zstd.Decoder
	limit   int64
	left    int64 // of the limit
}

func (d *decompressor) Read(p []byte) (int, error) {
	// Ask for one byte more than allowed: only its presence distinguishes "too long" from "exactly
	// full".
	n, err := d.decoder.Read(p[:min(int64(len(p)), d.left+1)])
	if int64(n) > d.left {
		n = int(d.left)
		d.left = 0
		return n, &LimitError{Limit: LimitBytes, Max: d.limit}
	}
	d.left -= int64(n)
	if errors.Is(err, io.EOF) && !d.source.any {
		err = io.ErrUnexpectedEOF // the decoder reports no frame at all for empty content
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, fmt.Errorf("decompress: %w", d.source.blame(err))
}

func (d *decompressor) Close() error {
	d.decoder.Close()
	return nil
}

// watchedReader remembers its own failure, to distinguish a broken source from broken content.
type watchedReader struct {
	in     io.Reader
	any    bool // whether the source had any byte
	failed error
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.any = w.any || n > 0
	if err != nil && err != io.EOF {
		w.failed = err
	}
	return n, err
}

// blame returns the source's failure if it had one, and otherwise an error that blames the content.
func (w *watchedReader) blame(err error) error {
	if w.failed != nil {
		return w.failed
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: compressed stream is cut off: %w", ErrMalformed, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}
