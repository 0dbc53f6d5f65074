// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

// windowBytes is read of a pack at once. Objects of a folder lie near one another, but not side by side.
const windowBytes = 16 << 10

// header is what precedes an object's compressed bytes.
type header struct {
	kind      Kind
	size      int64 // of what is compressed: the object, or the delta
	base      int64 // of an offsetDelta: where its base begins
	reference ID    // of a referenceDelta
	data      int64 // where the compressed bytes begin
}

// inflater reads pieces of packs. Its zero value is ready.
type inflater struct {
	pack   *pack         // that the window is of
	window *bufio.Reader // nil until first used
	zlib   io.ReadCloser // nil until first used
}

// position is the offset of the byte that is read next.
func (f *inflater) position() int64 {
	ahead, _ := f.pack.bytes.Seek(0, io.SeekCurrent) // cannot fail: nothing is moved
	return ahead - int64(f.window.Buffered())
}

// seek makes the window begin at an offset.
func (f *inflater) seek(p *pack, offset int64) error {
	if offset < 0 || offset >= p.size {
		return fmt.Errorf("%w: offset %d of %d", ErrMalformed, offset, p.size)
	}
	if f.window == nil {
		f.window = bufio.NewReaderSize(nil, windowBytes)
	}
	if f.pack == p {
		if ahead := offset - f.position(); ahead >= 0 && ahead <= int64(f.window.Buffered()) {
			_, err := f.window.Discard(int(ahead))
			return err
		}
	}
	if _, err := p.bytes.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	f.pack = p
	f.window.Reset(p.bytes)
	return nil
}

func (f *inflater) byte() (byte, error) {
	b, err := f.window.ReadByte()
	if err != nil {
		return 0, cutOff(err)
	}
	return b, nil
}

// header reads an object's header.
func (f *inflater) header(at place) (header, error) {
	if err := f.seek(at.pack, at.offset); err != nil {
		return header{}, err
	}
	b, err := f.byte()
	if err != nil {
		return header{}, err
	}
	h := header{kind: Kind(b >> 4 & 7), size: int64(b & 15)}
	for shift := 4; b&128 != 0; shift += 7 {
		if shift > 56 {
			return header{}, fmt.Errorf("%w: size of an object", ErrMalformed)
		}
		if b, err = f.byte(); err != nil {
			return header{}, err
		}
		h.size |= int64(b&127) << shift
	}
	switch h.kind {
	case Commit, Tree, Blob, Tag:
	case offsetDelta:
		h.base, err = f.baseOffset(at.offset)
	case referenceDelta:
		_, err = io.ReadFull(f.window, h.reference[:])
	default:
		err = fmt.Errorf("%w: object of kind %d", ErrMalformed, h.kind)
	}
	h.data = f.position()
	return h, cutOff(err)
}

// baseOffset reads how far before its delta a base begins.
func (f *inflater) baseOffset(offset int64) (int64, error) {
	b, err := f.byte()
	if err != nil {
		return 0, err
	}
	distance := int64(b & 127)
	for b&128 != 0 {
		if distance > offset {
			break
		}
		if b, err = f.byte(); err != nil {
			return 0, err
		}
		distance = (distance+1)<<7 | int64(b&127)
	}
	if distance <= 0 || distance > offset {
		return 0, fmt.Errorf("%w: base of a delta", ErrMalformed)
	}
	return offset - distance, nil
}

// read inflates all of an object, whose header was read, into a slice of its size.
func (f *inflater) read(at place, h header, into []byte) error {
	if err := f.begin(at, h); err != nil {
		return err
	}
	if _, err := io.ReadFull(f.zlib, into); err != nil {
		return broken(err)
	}
	var more [1]byte
	n, err := f.zlib.Read(more[:]) // the end, with its checksum
	if n != 0 {
		return fmt.Errorf("%w: an object is longer than its header says", ErrMalformed)
	}
	if !errors.Is(err, io.EOF) {
		return broken(err)
	}
	return nil
}

func (f *inflater) begin(at place, h header) error {
	if err := f.seek(at.pack, h.data); err != nil {
		return err
	}
	if f.zlib == nil {
		r, err := zlib.NewReader(f.window)
		if err != nil {
			return broken(err)
		}
		f.zlib = r
		return nil
	}
	resetter, ok := f.zlib.(zlib.Resetter)
	if !ok {
		return fmt.Errorf("%w: inflater cannot be used again", errors.ErrUnsupported)
	}
	return broken(resetter.Reset(f.window, nil))
}

// broken tells malformed bytes from a disk that does not answer.
func broken(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, zlib.ErrHeader), errors.Is(err, zlib.ErrChecksum):
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	default:
		return fmt.Errorf("inflate: %w", err)
	}
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in an object", ErrMalformed)
	}
	return err
}
