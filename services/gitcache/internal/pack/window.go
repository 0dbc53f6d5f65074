// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// windowBytes is read of a pack at once. Objects of a folder lie near one another, but not side by
// side.
const windowBytes = 16 << 10

// readable is one pack that objects are read from.
type readable struct {
	index *Index
	file  *os.File
	bytes *io.SectionReader // the file
}

// openReadable opens a pack by its index. Only names that are read are verified, so the checksums
// of pack and index are not: that would read both whole.
func openReadable(indexPath string) (*readable, error) {
	index, err := readIndex(indexPath)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(indexPath[:len(indexPath)-len(".idx")] + ".pack")
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &readable{index: index, file: file, bytes: io.NewSectionReader(file, 0, info.Size())}, nil
}

// find returns where the object begins.
func (p *readable) find(name []byte) (place, bool) {
	i, ok := p.index.find(name)
	if !ok {
		return place{}, false
	}
	return place{p, p.index.offset(i)}, true
}

// place is where an object begins.
type place struct {
	pack   *readable
	offset int64
}

// window reads pieces of packs. Its zero value is ready.
type window struct {
	pack    *readable     // that ahead is of
	ahead   *bufio.Reader // nil until first used
	inflate inflater
}

// position is the offset of the byte that is read next.
func (w *window) position() int64 {
	at, _ := w.pack.bytes.Seek(0, io.SeekCurrent) // cannot fail: nothing is moved
	return at - int64(w.ahead.Buffered())
}

// seek makes an offset the position.
func (w *window) seek(p *readable, offset int64) error {
	if offset < headerSize || offset >= p.bytes.Size() {
		return fmt.Errorf("%w: offset %d of %d", ErrMalformed, offset, p.bytes.Size())
	}
	if w.ahead == nil {
		w.ahead = bufio.NewReaderSize(nil, windowBytes)
	}
	if w.pack == p {
		if skip := offset - w.position(); skip >= 0 && skip <= int64(w.ahead.Buffered()) {
			_, err := w.ahead.Discard(int(skip))
			return err
		}
	}
	if _, err := p.bytes.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	w.pack = p
	w.ahead.Reset(p.bytes)
	return nil
}

// head reads an object's head, and returns where its compressed bytes begin.
func (w *window) head(at place) (head, int64, error) {
	if err := w.seek(at.pack, at.offset); err != nil {
		return head{}, 0, err
	}
	h, err := readHead(w.ahead, at.pack.index.width)
	if err != nil {
		return head{}, 0, cutOff(err)
	}
	return h, w.position(), nil
}

// read inflates all of what begins at an offset into a slice of its size.
func (w *window) read(p *readable, offset int64, into []byte) error {
	if err := w.seek(p, offset); err != nil {
		return err
	}
	body, err := w.inflate.open(w.ahead)
	if err != nil {
		return cutOff(err)
	}
	if _, err := io.ReadFull(body, into); err != nil {
		return cutOff(err)
	}
	var more [1]byte
	n, err := body.Read(more[:]) // the end, with its checksum
	switch {
	case n != 0:
		return fmt.Errorf("%w: an object is longer than its head says", ErrMalformed)
	case !errors.Is(err, io.EOF):
		return cutOff(err)
	}
	return nil
}

// cutOff marks an end of the pack in the middle of an object.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in an object", ErrMalformed)
	}
	return err
}
