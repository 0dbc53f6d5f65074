// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/digest"
)

// fewBytes is the largest piece of a file that is sent as is. Next to the rest of the delta so few
// bytes compress as well as against the file's other version, and at less cost.
const fewBytes = 4 << 10

// WriteDelta writes the uncompressed delta that leads from one bundle to another; see [Compress].
// It reads both once, side by side, and holds at most two files of 4 MiB of them in memory. Errors
// match [ErrMalformed] or [ErrTooLarge] if one of the two is not a bundle within the limits, and
// digest.ErrMismatch if one does not match its digest. Other errors come from the readers and from
// w. After an error the written bytes are useless.
func WriteDelta(w io.Writer, from, to Tar, limits Limits) error {
	d := &deltaWriter{
		out:  w,
		base: NewReader(digest.NewVerifier(from.Content, from.Digest), limits),
		next: NewReader(digest.NewVerifier(to.Content, to.Digest), limits),
	}
	d.buffer = append(d.buffer, deltaMagic...)
	d.buffer = append(d.buffer, from.Digest.Bytes()...)
	d.buffer = append(d.buffer, to.Digest.Bytes()...)
	if err := d.merge(); err != nil {
		return fmt.Errorf("make delta: %w", err)
	}
	return nil
}

type deltaWriter struct {
	out        io.Writer
	base, next *Reader
	run        byte // the latest instruction if it can still be extended: opKeep, opDrop or 0
	runs       uint64
	buffer     []byte // instructions that are not written yet
	old, new   []byte // contents of a file
	encoder    dictionaryEncoder
}

// merge walks both bundles in the order of their names.
func (d *deltaWriter) merge() error {
	old, oldLeft, err := step(d.base)
	if err != nil {
		return err
	}
	entry, left, err := step(d.next)
	if err != nil {
		return err
	}
	for oldLeft || left {
		before := oldLeft && (!left || old.Name <= entry.Name)
		after := left && (!oldLeft || entry.Name <= old.Name)
		if err := d.instruct(old, entry, before, after); err != nil {
			return err
		}
		if before {
			if old, oldLeft, err = step(d.base); err != nil {
				return err
			}
		}
		if after {
			if entry, left, err = step(d.next); err != nil {
				return err
			}
		}
	}
	d.flushRun()
	d.buffer = append(d.buffer, opEnd)
	return d.flush()
}

// step returns the next entry and whether there is one.
func step(r *Reader) (Entry, bool, error) {
	e, err := r.Next()
	if err == io.EOF {
		return Entry{}, false, nil
	}
	return e, err == nil, err
}

// instruct writes what happens to old, the next entry of the base, if there is one, and how entry,
// the next entry of the other bundle, is made, if there is one. If both are given, they have the
// same name.
func (d *deltaWriter) instruct(old, entry Entry, before, after bool) error {
	switch {
	case before && after && old.IsSymlink() && old == entry:
		d.count(opKeep)
	case before && after && !old.IsSymlink() && !entry.IsSymlink():
		return d.change(old, entry)
	case before && after:
		d.count(opDrop)
		return d.add(entry)
	case before:
		d.count(opDrop)
	default:
		return d.add(entry)
	}
	return nil
}

// count extends the current run by one.
func (d *deltaWriter) count(op byte) {
	if d.run != op {
		d.flushRun()
		d.run = op
	}
	d.runs++
}

func (d *deltaWriter) flushRun() {
	if d.runs > 0 {
		d.buffer = binary.AppendUvarint(append(d.buffer, d.run), d.runs)
	}
	d.run, d.runs = 0, 0
}

func (d *deltaWriter) flush() error {
	_, err := d.out.Write(d.buffer)
	d.buffer = d.buffer[:0]
	return err
}

func (d *deltaWriter) add(e Entry) error {
	d.flushRun()
	d.buffer = appendText(append(d.buffer, opAdd, kindOf(e)), e.Name)
	if e.IsSymlink() {
		d.buffer = appendText(d.buffer, e.Target)
		return d.flush()
	}
	d.buffer = binary.AppendUvarint(d.buffer, uint64(e.Size))
	return d.copyRest()
}

// copyRest writes the buffered instructions, and then the rest of the next bundle's current file.
func (d *deltaWriter) copyRest() error {
	if err := d.flush(); err != nil {
		return err
	}
	_, err := io.Copy(onlyWriter{d.out}, readerOnly{d.next})
	return err
}

// change writes how a file of the base becomes the file of the same name.
func (d *deltaWriter) change(old, entry Entry) error {
	if old.Size > maxDictionary || entry.Size > maxDictionary {
		return d.changeLarge(old, entry)
	}
	var err error
	if d.old, err = readInto(d.old, d.base, old.Size); err != nil {
		return err
	}
	if d.new, err = readInto(d.new, d.next, entry.Size); err != nil {
		return err
	}
	head := commonPrefix(d.old, d.new)
	tail := commonSuffix(d.old[head:], d.new[head:])
	middle := d.new[head : len(d.new)-tail]
	if len(middle) == 0 && old == entry {
		d.count(opKeep)
		return nil
	}
	d.flushRun()
	if len(middle) > fewBytes && len(d.old) > 0 {
		frame, err := d.encoder.encode(d.old, d.new)
		if err != nil {
			return fmt.Errorf("compress against the base: %w", err)
		}
		if len(frame) < len(middle) {
			return d.patch(entry, frame)
		}
	}
	d.splice(entry, int64(head), int64(len(middle)), int64(tail))
	d.buffer = append(d.buffer, middle...)
	return d.flush()
}

func (d *deltaWriter) patch(e Entry, frame []byte) error {
	d.buffer = append(d.buffer, opPatch, kindOf(e))
	d.buffer = binary.AppendUvarint(d.buffer, uint64(len(d.new)))
	d.buffer = binary.AppendUvarint(d.buffer, uint64(len(frame)))
	d.buffer = append(d.buffer, frame...)
	return d.flush()
}

func (d *deltaWriter) splice(e Entry, lengths ...int64) {
	d.buffer = append(d.buffer, opSplice, kindOf(e))
	for _, n := range lengths {
		d.buffer = binary.AppendUvarint(d.buffer, uint64(n))
	}
}

// changeLarge is change for files that are not held in memory: it omits the common prefix.
func (d *deltaWriter) changeLarge(old, entry Entry) error {
	d.old, d.new = resize(d.old, copyBytes), resize(d.new, copyBytes)
	for head := int64(0); ; {
		a, err := readFull(d.base, d.old)
		if err != nil {
			return err
		}
		b, err := readFull(d.next, d.new)
		if err != nil {
			return err
		}
		same := commonPrefix(d.old[:a], d.new[:b])
		head += int64(same)
		if same == copyBytes {
			continue
		}
		if same == a && same == b && old == entry {
			d.count(opKeep)
			return nil
		}
		d.flushRun()
		d.splice(entry, head, entry.Size-head, 0)
		d.buffer = append(d.buffer, d.new[same:b]...)
		return d.copyRest()
	}
}

// readInto reads a file of the given size, and reuses buffer if it is large enough.
func readInto(buffer []byte, r io.Reader, size int64) ([]byte, error) {
	buffer = resize(buffer, int(size))
	_, err := io.ReadFull(r, buffer)
	return buffer, err
}

func resize(buffer []byte, n int) []byte {
	if cap(buffer) < n {
		return make([]byte, n)
	}
	return buffer[:n]
}

// readFull fills p as far as the file reaches. The end of the file is not an error.
func readFull(r io.Reader, p []byte) (int, error) {
	n, err := io.ReadFull(r, p)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return n, nil
	}
	return n, err
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	const stride = 4 << 10 // compared at once, which is faster than byte by byte
	at := 0
	for at+stride <= n && bytes.Equal(a[at:at+stride], b[at:at+stride]) {
		at += stride
	}
	for at < n && a[at] == b[at] {
		at++
	}
	return at
}

func commonSuffix(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
