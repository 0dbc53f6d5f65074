// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/binary"
	"fmt"
)

// maxDeltaHead is how many bytes the two sizes at the beginning of a delta take at most.
const maxDeltaHead = 2 * binary.MaxVarintLen64

// minDelta is the fewest bytes that Git accepts as a delta: two sizes, and an operation of two
// bytes.
const minDelta = 4

var errDelta = fmt.Errorf("%w: delta", ErrMalformed)

// deltaSizes reads the sizes of the base that a delta is for, and of what it makes of it.
func deltaSizes(delta []byte) (base, result int64, rest []byte, err error) {
	b, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, 0, nil, errDelta
	}
	r, m := binary.Uvarint(delta[n:])
	if m <= 0 || int64(b) < 0 || int64(r) < 0 {
		return 0, 0, nil, errDelta
	}
	return int64(b), int64(r), delta[n+m:], nil
}

// applyDelta appends what a delta makes of a base to into. It never appends more than the size that
// the delta declares, so that a caller who has checked that size knows how much memory is needed.
func applyDelta(into, base, delta []byte) ([]byte, error) {
	baseSize, size, ops, err := deltaSizes(delta)
	if err != nil || len(delta) < minDelta || baseSize != int64(len(base)) {
		return nil, errDelta
	}
	start := len(into)
	for len(ops) > 0 {
		op := ops[0]
		ops = ops[1:]
		var from []byte
		if op&0x80 != 0 {
			from, ops, err = copied(op, ops, base)
		} else {
			from, ops, err = inserted(int(op), ops)
		}
		if err != nil || int64(len(into)-start+len(from)) > size {
			return nil, errDelta
		}
		into = append(into, from...)
	}
	if int64(len(into)-start) != size {
		return nil, errDelta
	}
	return into, nil
}

// inserted reads an operation that inserts the n bytes behind it.
func inserted(n int, ops []byte) (from, rest []byte, err error) {
	if n == 0 || n > len(ops) {
		return nil, nil, errDelta
	}
	return ops[:n], ops[n:], nil
}

// copied reads an operation that copies from the base: which bytes of offset and size follow is
// told by op's bits.
func copied(op byte, ops, base []byte) (from, rest []byte, err error) {
	var v [8]byte // four bytes of offset, three of size
	for bit := range 7 {
		if op&(1<<bit) == 0 {
			continue
		}
		if len(ops) == 0 {
			return nil, nil, errDelta
		}
		v[bit], ops = ops[0], ops[1:]
	}
	offset, size := int64(binary.LittleEndian.Uint32(v[:4])), int64(binary.LittleEndian.Uint32(v[4:]))
	if size == 0 {
		size = 0x10000
	}
	if offset+size > int64(len(base)) {
		return nil, nil, errDelta
	}
	return base[offset : offset+size], ops, nil
}
