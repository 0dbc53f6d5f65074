// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// Reader reads a backup. It is not safe for concurrent use.
type Reader struct {
	// Header describes the backup. It is authentic.
	Header Header

	source       *source
	decompressed *zstd.Decoder
	lines        *bufio.Scanner
	grown        int64 // bytes of the lines so far
	rows         int64
	isEnded      bool
}

// source counts the bytes read from the file, and fails above limit.
type source struct {
	from        io.Reader
	read, limit int64
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.limit > 0 && s.read >= s.limit {
		return 0, fmt.Errorf("%w: its header is longer than %d bytes", ErrForeign, s.limit)
	}
	n, err := s.from.Read(p)
	s.read += int64(n)
	return n, err
}

// NewReader opens a backup with the first of the roots that it was made with. The errors match
// [ErrForeign], [ErrRoot], [ErrDamaged], or keyroot.ErrUnavailable if the root does not answer. The
// caller closes the reader.
func NewReader(ctx context.Context, from io.Reader, roots []keyroot.Root) (*Reader, error) {
	file, keys := &source{from: from, limit: maxHeader}, &keyring{ctx: ctx, roots: roots}
	plain, err := age.Decrypt(file, keys)
	if err != nil {
		return nil, headerError(err, keys)
	}
	file.limit = 0
	decompressed, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r := &Reader{source: file, decompressed: decompressed, lines: bufio.NewScanner(decompressed)}
	r.lines.Buffer(nil, maxRow)
	line, err := r.line()
	if err == nil {
		err = r.header(line)
	}
	if err != nil {
		decompressed.Close()
		return nil, err
	}
	return r, nil
}

// headerError returns why a file did not open: what the roots said, or else what age did.
func headerError(err error, keys *keyring) error {
	switch {
	case keys.err != nil:
		return keys.err
	case errors.Is(err, ErrForeign):
		return err
	}
	return fmt.Errorf("%w: %w", ErrForeign, err)
}

func (r *Reader) header(line []byte) error {
	if err := json.Unmarshal(line, &r.Header); err != nil || r.Header.Format == 0 {
		return fmt.Errorf("%w: it has no header", ErrDamaged)
	}
	if r.Header.Format != format {
		return fmt.Errorf("%w: it has the form %d of release %.80q, and this one reads form %d", ErrForeign, r.Header.Format, r.Header.Version, format)
	}
	return nil
}

// Close frees the memory of the reader.
func (r *Reader) Close() { r.decompressed.Close() }

// Next returns what comes next: either a table, whose rows follow, or a row. Both are nil at the
// end of a complete backup. The error matches [ErrDamaged], and everything before it was authentic.
func (r *Reader) Next() (*Table, Row, error) {
	if r.isEnded {
		return nil, nil, nil
	}
	line, err := r.line()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(line, []byte("[")):
		var row Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, nil, fmt.Errorf("%w: row %d: %w", ErrDamaged, r.rows, err)
		}
		r.rows++
		return nil, row, nil
	case bytes.HasPrefix(line, []byte(`{"table"`)):
		table := new(Table)
		if err := json.Unmarshal(line, table); err != nil {
			return nil, nil, fmt.Errorf("%w: after row %d: %w", ErrDamaged, r.rows, err)
		}
		return table, nil, nil
	}
	return nil, nil, r.end(line)
}

// end checks that the last line is one, and that nothing follows.
func (r *Reader) end(line []byte) error {
	var last trailer
	if err := json.Unmarshal(line, &last); err != nil || last.Rows != r.rows {
		return fmt.Errorf("%w: it ends with %.80q after %d rows", ErrDamaged, line, r.rows)
	}
	if r.lines.Scan() {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	if err := r.lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r.isEnded = true
	return nil
}

// line returns the next line, which is valid until the one after it.
func (r *Reader) line() ([]byte, error) {
	if !r.lines.Scan() {
		if err := r.lines.Err(); err != nil {
			return nil, fmt.Errorf("%w: after row %d: %w", ErrDamaged, r.rows, err)
		}
		return nil, fmt.Errorf("%w: it ends after row %d", ErrDamaged, r.rows)
	}
	r.grown += int64(len(r.lines.Bytes()))
	if r.grown > freeGrowth && r.grown/maxRatio > r.source.read {
		return nil, fmt.Errorf("%w: it grows to more than %d times its size", ErrDamaged, maxRatio)
	}
	return r.lines.Bytes(), nil
}
