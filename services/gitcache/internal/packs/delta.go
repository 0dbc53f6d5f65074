// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package packs

// maxVarint is how many bytes a size in a delta may have.
const maxVarint = 10

// sizes are how a delta begins.
type sizes struct{ base, result int64 }

// deltaSizes reads them, and returns the instructions that follow.
func deltaSizes(delta []byte) (s sizes, rest []byte, ok bool) {
	if s.base, delta, ok = varint(delta); !ok {
		return sizes{}, nil, false
	}
	s.result, delta, ok = varint(delta)
	return s, delta, ok
}

func varint(b []byte) (int64, []byte, bool) {
	var v int64
	for i := 0; i < len(b) && i < maxVarint-1; i++ {
		v |= int64(b[i]&127) << (7 * i)
		if b[i]&128 == 0 {
			return v, b[i+1:], true
		}
	}
	return 0, nil, false
}

// applyDelta fills result by copying from base and from the delta itself. False: the delta does not make exactly that.
func applyDelta(result, base, delta []byte) bool {
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		switch {
		case op&128 != 0:
			var piece []byte
			var ok bool
			if piece, delta, ok = copied(op, base, delta); !ok || len(piece) > len(result) {
				return false
			}
			result = result[copy(result, piece):]
		case op != 0 && int(op) <= len(delta) && int(op) <= len(result):
			result = result[copy(result, delta[:op]):]
			delta = delta[op:]
		default:
			return false
		}
	}
	return len(result) == 0
}

// wholeCopy is what a size of zero means.
const wholeCopy = 1 << 16

// copied reads an instruction to copy: the bits of op tell which bytes of offset and size follow.
func copied(op byte, base, delta []byte) (piece, rest []byte, ok bool) {
	var fields [7]int
	for i := range fields {
		if op&(1<<i) == 0 {
			continue
		}
		if len(delta) == 0 {
			return nil, nil, false
		}
		fields[i], delta = int(delta[0]), delta[1:]
	}
	offset := fields[0] | fields[1]<<8 | fields[2]<<16 | fields[3]<<24
	size := fields[4] | fields[5]<<8 | fields[6]<<16
	if size == 0 {
		size = wholeCopy
	}
	if offset+size > len(base) {
		return nil, nil, false
	}
	return base[offset : offset+size], delta, true
}
