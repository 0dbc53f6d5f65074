// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxPAXBytes bounds the records of one entry: two texts of the longest kind, their keys and
// lengths.
const maxPAXBytes = 2 * (MaxNameBytes + 32)

// Reader reads one canonical tar and nothing else. It is safe for untrusted bytes: it holds no more
// than a header in memory, stops at the first limit, and refuses anything that a [Writer] would not
// have written. It is not safe for concurrent use.
//
// Reader does not verify a digest; put it behind a digest.NewVerifier for that. Until [Reader.Next]
// has returned io.EOF, the entries may be the beginning of a damaged bundle, so a caller must not
// act on them before.
type Reader struct {
	in      io.Reader
	limits  Limits
	order   sequence
	files   int
	read    int64  // bytes of the tar so far
	left    int64  // bytes of the current file not read yet
	pad     int64  // zero bytes after the current file
	raw     []byte // the header of the current entry as it came
	again   []byte // the same header in its canonical encoding
	current Entry
	failed  error // sticks, io.EOF included
}

// NewReader returns a Reader of the uncompressed tar r; see [Decompress].
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{in: r, limits: limits.WithDefaults()}
}

// Next skips the rest of the current file and moves to the next entry. At the end of the bundle it
// returns io.EOF, and has then read the underlying reader to its last byte. Other errors match
// [ErrMalformed] or [ErrTooLarge], or come from the underlying reader, wrapped (a
// *digest.MismatchError among them). Errors stick.
func (r *Reader) Next() (Entry, error) {
	if r.failed != nil {
		return Entry{}, r.failed
	}
	entry, err := r.next()
	if err != nil {
		r.failed = err
		return Entry{}, err
	}
	return entry, nil
}

// Read reads the content of the current file and returns io.EOF at its end. A symbolic link has no
// content.
func (r *Reader) Read(p []byte) (int, error) {
	if r.failed != nil {
		return 0, r.failed
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.read += int64(n)
	if err == nil || (errors.Is(err, io.EOF) && r.left == 0) {
		return n, nil
	}
	r.failed = r.cut(err)
	return n, r.failed
}

func (r *Reader) next() (Entry, error) {
	if err := r.finish(); err != nil {
		return Entry{}, err
	}
	r.raw = r.raw[:0]
	block, err := r.take(blockSize)
	if err != nil {
		return Entry{}, err
	}
	if isZero(block) {
		return Entry{}, r.end()
	}
	entry, err := r.parse(block)
	if err != nil {
		return Entry{}, err
	}
	if err := r.accept(entry); err != nil {
		return Entry{}, err
	}
	r.current, r.left, r.pad = entry, entry.Size, padding(entry.Size)
	return entry, nil
}

// finish reads to the end of the current file and past its padding.
func (r *Reader) finish() error {
	if _, err := io.Copy(io.Discard, readerOnly{r}); err != nil {
		return err
	}
	r.raw = r.raw[:0]
	zeros, err := r.take(r.pad)
	if err != nil {
		return err
	}
	if !isZero(zeros) {
		return &EntryError{Name: r.current.Name, Reason: "is padded with other bytes than zero"}
	}
	r.pad = 0
	return nil
}

// end checks that the archive ends here: a second zero block, followed by nothing.
func (r *Reader) end() error {
	block, err := r.take(blockSize)
	if err != nil {
		return err
	}
	if !isZero(block) {
		return fmt.Errorf("%w: one zero block inside, want two at the end", ErrMalformed)
	}
	n, err := io.ReadFull(r.in, make([]byte, 1))
	if n > 0 {
		return fmt.Errorf("%w: bytes after the end", ErrMalformed)
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("read bundle: %w", err)
}

// parse reads an entry's header, whose first block has already been taken. It is lenient about
// everything that accept finds by encoding the entry again.
func (r *Reader) parse(block []byte) (Entry, error) {
	var records map[string]string
	if fieldType.of(block)[0] == typePAX {
		size, err := fieldSize.octal(block)
		if err != nil || size <= 0 || size > maxPAXBytes {
			return Entry{}, fmt.Errorf("%w: extended header of unreasonable size", ErrMalformed)
		}
		data, err := r.take(size + padding(size))
		if err != nil {
			return Entry{}, err
		}
		if records, err = parsePAX(data[:size]); err != nil {
			return Entry{}, err
		}
		if block, err = r.take(blockSize); err != nil {
			return Entry{}, err
		}
	}
	return parseBlock(block, records)
}

func parseBlock(block []byte, records map[string]string) (Entry, error) {
	e := Entry{Name: fieldName.text(block)}
	if prefix := fieldPrefix.text(block); prefix != "" {
		e.Name = prefix + "/" + e.Name
	}
	if path, ok := records[paxPath]; ok {
		e.Name = path
	}
	switch kind := fieldType.of(block)[0]; kind {
	case typeFile:
	case typeSymlink:
		return parseLink(e, block, records)
	default:
		return Entry{}, &EntryError{Name: e.Name, Reason: fmt.Sprintf("is of type %q, want a file or a symbolic link", kind)}
	}
	var err error
	if e.Size, err = fieldSize.octal(block); err != nil || e.Size < 0 {
		return Entry{}, &EntryError{Name: e.Name, Reason: "has no readable size"}
	}
	mode, err := fieldMode.octal(block)
	e.Executable = err == nil && mode == 0o755
	return e, nil
}

func parseLink(e Entry, block []byte, records map[string]string) (Entry, error) {
	e.Target = fieldLink.text(block)
	if target, ok := records[paxLink]; ok {
		e.Target = target
	}
	if err := CheckName(e.Name); err != nil { // CheckTarget relies on it
		return Entry{}, err
	}
	return e, CheckTarget(e.Name, e.Target)
}

// parsePAX reads the records of an extended header. Records with other keys are left for accept to
// refuse.
func parsePAX(data []byte) (map[string]string, error) {
	records := make(map[string]string, 2)
	for len(data) > 0 {
		digits, _, found := bytes.Cut(data, []byte{' '})
		length, err := strconv.Atoi(string(digits))
		if !found || err != nil || length <= len(digits)+1 || length > len(data) {
			return nil, fmt.Errorf("%w: extended header with an unreadable record", ErrMalformed)
		}
		key, value, _ := bytes.Cut(bytes.TrimSuffix(data[len(digits)+1:length], []byte{'\n'}), []byte{'='})
		records[string(key)] = string(value)
		data = data[length:]
	}
	return records, nil
}

// accept checks the entry against the rules of a Writer, and its header byte for byte.
func (r *Reader) accept(e Entry) error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	if err := r.order.add(e.Name); err != nil {
		return err
	}
	r.files++
	if err := r.limits.check(e, r.files, r.read); err != nil {
		return err
	}
	r.again = appendHeader(r.again[:0], e)
	if !bytes.Equal(r.raw, r.again) {
		return &EntryError{Name: e.Name, Reason: "has a header that is not in canonical form"}
	}
	return nil
}

// take reads exactly n bytes, and appends them to raw. The result is valid until the next call.
func (r *Reader) take(n int64) ([]byte, error) {
	if r.read+n > r.limits.Bytes {
		return nil, &LimitError{Limit: LimitBytes, Max: r.limits.Bytes}
	}
	start := len(r.raw)
	r.raw = append(r.raw, make([]byte, n)...)
	got, err := io.ReadFull(r.in, r.raw[start:])
	r.read += int64(got)
	if err != nil {
		return nil, r.cut(err)
	}
	return r.raw[start:], nil
}

// cut turns a premature end of the underlying reader into a malformed bundle.
func (r *Reader) cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it ends after %d bytes: %w", ErrMalformed, r.read, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("read bundle: %w", err)
}

// readerOnly hides every method but Read from io.Copy.
type readerOnly struct{ io.Reader }

func isZero(block []byte) bool { return len(bytes.TrimLeft(block, "\x00")) == 0 }
