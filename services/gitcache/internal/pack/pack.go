// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package pack indexes, merges and reads Git's packs within memory that is known beforehand.
//
// Its promises:
//
//   - Nothing in a pack is believed, whether a server sent it or a disk kept it. Sizes, offsets,
//     names and chains of deltas are checked, objects that were made to collide with others are
//     refused, and every object that is read has the name that it was asked for by. Bytes that are
//     wrong are ErrMalformed.
//   - Memory is asked for before it is used. A pack that arrives from an upstream has to be
//     indexed: every object's id computed, deltas applied. go-git does that at about 1.2 kB for
//     each object, and with every base in memory. [Receive] needs [ObjectCost] for each object and
//     [WorkingSet] besides, streams objects that are not deltas, and asks for its memory once the
//     pack's header gives the number of objects there are. While memory is short the pack waits on
//     the disk, and not in the upstream.
//   - Work is bounded, too: a few kilobytes of deltas can expand to any number of gigabytes. A pack
//     beyond the bounds is a *LimitError before its deltas are applied.
//   - A pack appears under its name whole, durable and with its index, or not at all. A crash
//     leaves at most a file that begins with [TemporaryPrefix], or an index without its pack.
//
// [Merge] makes one pack of several without inflating anything: objects are copied as they are, so
// that it costs little more than reading and writing the files.
//
// A [Reader] is the one way in which mirrors are read, whichever program stored the packs. It knows
// names of SHA-1 and of SHA-256; Receive and Merge know SHA-1 alone. All packs have to be complete
// in themselves: a base is in the same pack as its deltas.
//
// A pack that is received passes three states: scanned, when all objects are found and all but
// deltas have their names; resolved, when deltas have theirs; and committed. No value here has a
// lock, and each is for one goroutine, except an [Index], which is immutable.
package pack

import (
	"bufio"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// ID names an object.
type ID [20]byte

// String returns the id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads an id as String prints it; false if it is not one.
func ParseID(s string) (ID, bool) {
	var id ID
	if len(s) != hex.EncodedLen(len(id)) {
		return ID{}, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

var nameForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// IsName reports whether text is in the form of an object's name, by SHA-1 or by SHA-256.
func IsName(text string) bool { return nameForm.MatchString(text) }

var (
	// ErrMalformed means that bytes are no complete pack, or no index of one.
	ErrMalformed = errors.New("malformed pack")
	// ErrEmpty means that a stream ended before its first byte.
	ErrEmpty = errors.New("no pack")
)

const (
	headerSize = 12
	sumSize    = sha1.Size // bytes of a name, and of a checksum, by SHA-1
	version    = 2
	magic      = "PACK"
	// maxObjects keeps numbers of objects within an int32.
	maxObjects = 1 << 30
)

// kind is an object's type as packs write it. A delta is a type of its own there; the object that
// it makes has the type of its base.
type kind uint8

const (
	kindCommit   kind = 1
	kindTree     kind = 2
	kindBlob     kind = 3
	kindTag      kind = 4
	kindOfsDelta kind = 6
	kindRefDelta kind = 7
)

func (k kind) isDelta() bool { return k == kindOfsDelta || k == kindRefDelta }

func (k kind) String() string {
	return [...]string{"", "commit", "tree", "blob", "tag", "", "offset delta", "reference delta"}[k&7]
}

// endMalformed marks an end in the middle of a pack, and returns any other error as it is.
func endMalformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// head precedes an object's compressed bytes.
type head struct {
	kind kind
	size int64             // inflated; the delta's if it is one
	back int64             // how far before this object its base begins; offset deltas
	base [sha256.Size]byte // reference deltas: the name, in its first bytes
}

// readHead reads an object's head, in which names have width bytes. The reader is at the object's
// first byte.
func readHead(r io.ByteReader, width int) (head, error) {
	c, err := r.ReadByte()
	if err != nil {
		return head{}, err
	}
	h := head{kind: kind(c >> 4 & 7), size: int64(c & 15)}
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil {
			return head{}, err
		}
		if shift > 55 {
			return head{}, fmt.Errorf("%w: object without end", ErrMalformed)
		}
		h.size |= int64(c&0x7f) << shift
	}
	switch h.kind {
	case kindCommit, kindTree, kindBlob, kindTag:
	case kindOfsDelta:
		h.back, err = readBack(r)
	case kindRefDelta:
		for i := 0; i < width && err == nil; i++ {
			h.base[i], err = r.ReadByte()
		}
	default:
		err = fmt.Errorf("%w: object of type %d", ErrMalformed, h.kind)
	}
	return h, err
}

// readBack reads how far before an offset delta its base begins. Each byte but the last one stands
// for one more than its digits, so that no distance has two forms.
func readBack(r io.ByteReader) (int64, error) {
	c, err := r.ReadByte()
	back := int64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if back >= 1<<47 {
			return 0, fmt.Errorf("%w: base out of reach", ErrMalformed)
		}
		c, err = r.ReadByte()
		back = (back+1)<<7 | int64(c&0x7f)
	}
	if err == nil && back == 0 {
		err = fmt.Errorf("%w: object is its own base", ErrMalformed)
	}
	return back, err
}

// append writes the head as packs have it.
func (h head) append(to []byte) []byte {
	c, rest := byte(h.kind)<<4|byte(h.size&15), h.size>>4
	for ; rest > 0; rest >>= 7 {
		to = append(to, c|0x80)
		c = byte(rest & 0x7f)
	}
	to = append(to, c)
	switch h.kind {
	case kindOfsDelta:
		return appendBack(to, h.back)
	case kindRefDelta:
		return append(to, h.base[:sumSize]...)
	case kindCommit, kindTree, kindBlob, kindTag:
	}
	return to
}

// appendBack is the reverse of readBack.
func appendBack(to []byte, back int64) []byte {
	digits := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		digits = append(digits, 0x80|byte(back&0x7f))
	}
	for i := len(digits) - 1; i >= 0; i-- {
		to = append(to, digits[i])
	}
	return to
}

// preamble returns a pack's first bytes.
func preamble(objects int) []byte {
	to := binary.BigEndian.AppendUint32([]byte(magic), version)
	return binary.BigEndian.AppendUint32(to, uint32(objects))
}

// readPreamble reads a pack's first bytes: how many objects follow.
func readPreamble(r *bufio.Reader) (int, error) {
	if _, err := r.Peek(1); errors.Is(err, io.EOF) {
		return 0, ErrEmpty
	} else if err != nil { // which the next call would not return again
		return 0, fmt.Errorf("read pack: %w", err)
	}
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	objects := binary.BigEndian.Uint32(b[8:])
	if string(b[:4]) != magic || binary.BigEndian.Uint32(b[4:]) != version || objects > maxObjects {
		return 0, fmt.Errorf("%w: begins with %x", ErrMalformed, b)
	}
	return int(objects), nil
}
