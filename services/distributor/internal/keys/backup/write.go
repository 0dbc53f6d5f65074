// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// Writer writes a backup. It is not safe for concurrent use.
type Writer struct {
	sealed     io.WriteCloser
	compressed *zstd.Encoder
	rows       int64
}

// NewWriter begins a backup that the root opens. The error matches keyroot.ErrUnavailable if the
// root does not answer.
func NewWriter(ctx context.Context, to io.Writer, root keyroot.Root, header Header) (*Writer, error) {
	sealed, err := age.Encrypt(to, recipient{ctx: ctx, root: root})
	if err != nil {
		return nil, fmt.Errorf("begin backup: %w", err)
	}
	compressed, err := zstd.NewWriter(sealed, zstd.WithWindowSize(maxWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("begin backup: %w", err)
	}
	w := &Writer{sealed: sealed, compressed: compressed}
	header.Format = format
	return w, w.line(header)
}

// Table begins the rows of a table. It ends the rows of the table before.
func (w *Writer) Table(t Table) error { return w.line(t) }

// Row writes a row of the table that was begun last. The error matches [ErrTooLarge] if no reader
// would accept the row.
func (w *Writer) Row(r Row) error {
	w.rows++
	return w.line(r)
}

// Close ends the backup. A backup that was not closed is not one: readers refuse it. Close does not
// close what the backup is written to.
func (w *Writer) Close() error {
	return errors.Join(w.line(trailer{Rows: w.rows}), w.compressed.Close(), w.sealed.Close())
}

func (w *Writer) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode backup: %w", err)
	}
	if len(text) >= maxRow {
		return fmt.Errorf("%w: it has %d bytes, and %d are the limit", ErrTooLarge, len(text), maxRow)
	}
	if _, err := w.compressed.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}
