// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"io"
)

// copyBytes is how much of a file is held in memory at once.
const copyBytes = 32 << 10

// onlyWriter hides a writer's other methods, because io.Copy would use them and allocate buffers
// for every file.
type onlyWriter struct{ io.Writer }

var errClosed = errors.New("bundle writer is closed")

// Writer writes one canonical tar. Entries are written in strictly rising bytewise order of their
// names, which the Writer enforces along with every other rule of the format and the limits. It is
// not safe for concurrent use.
//
// The first error sticks: every later call returns it, because the written bytes can no longer
// become a bundle.
type Writer struct {
	out      io.Writer
	limits   Limits
	order    sequence
	files    int
	written  int64  // bytes of the tar so far
	buffer   []byte // the header that is being written
	content  []byte // the piece of a file that is being written
	zeros    [trailerSize]byte
	failed   error
	complete bool
}

// NewWriter returns a Writer to w. It writes many small pieces, so put a buffer or [Compress] in
// front of a file or a connection. To get the digest, write to an io.MultiWriter with a
// digest.Hasher.
func NewWriter(w io.Writer, limits Limits) *Writer {
	return &Writer{out: onlyWriter{w}, limits: limits.WithDefaults()}
}

// WriteFile adds a regular file of exactly size bytes, read from r. A longer r is not read past its
// size; a shorter one is an error that matches io.ErrUnexpectedEOF. Other errors: [*EntryError],
// [*LimitError], or an error of r or of the underlying writer.
func (w *Writer) WriteFile(name string, executable bool, size int64, r io.Reader) error {
	if err := w.begin(Entry{Name: name, Executable: executable, Size: size}); err != nil {
		return err
	}
	if err := w.copy(r, size); err != nil {
		return w.fail(fmt.Errorf("write file %q: %w", name, err))
	}
	return nil
}

// WriteSymlink adds a symbolic link; see [CheckTarget] for what it may point to.
func (w *Writer) WriteSymlink(name, target string) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := errors.Join(CheckName(name), CheckTarget(name, target)); err != nil {
		return w.fail(err)
	}
	return w.begin(Entry{Name: name, Target: target})
}

// Close writes the end of the tar; without it there is no bundle. It does not close the underlying
// writer. A bundle without entries is valid.
func (w *Writer) Close() error {
	if err := w.usable(); err != nil {
		return err
	}
	w.complete = true
	return w.put(w.zeros[:])
}

// begin checks an entry against everything before it, and writes its header.
func (w *Writer) begin(e Entry) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := CheckName(e.Name); err != nil {
		return w.fail(err)
	}
	if err := w.order.add(e.Name); err != nil {
		return w.fail(err)
	}
	w.buffer = appendHeader(w.buffer[:0], e)
	if err := w.admit(e, int64(len(w.buffer))); err != nil {
		return w.fail(err)
	}
	return w.put(w.buffer)
}

// admit refuses an entry that would take the bundle past a limit, before any byte of it is written.
func (w *Writer) admit(e Entry, header int64) error {
	w.files++
	if e.Size < 0 {
		return &EntryError{Name: e.Name, Reason: "has a negative size"}
	}
	return w.limits.check(e, w.files, w.written+header)
}

func (w *Writer) copy(r io.Reader, size int64) error {
	if w.content == nil {
		w.content = make([]byte, copyBytes)
	}
	n, err := io.CopyBuffer(w.out, io.LimitReader(r, size), w.content)
	w.written += n
	if err != nil {
		return err
	}
	if n < size {
		return fmt.Errorf("content ends after %d of %d bytes: %w", n, size, io.ErrUnexpectedEOF)
	}
	return w.put(w.zeros[:padding(size)])
}

func (w *Writer) put(p []byte) error {
	n, err := w.out.Write(p)
	w.written += int64(n)
	if err != nil {
		return w.fail(fmt.Errorf("write bundle: %w", err))
	}
	return nil
}

func (w *Writer) usable() error {
	if w.failed == nil && w.complete {
		return errClosed
	}
	return w.failed
}

func (w *Writer) fail(err error) error {
	w.failed = err
	return err
}
