// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"slices"
)

// hasher encodes values so that different values have different bytes, and sums these up. It needs
// one allocation for an object of common size, because it runs for every event of every watch.
type hasher struct {
	digest hash.Hash
	keys   []string // a stack of sorted keys: the keys of a map are above the keys of the map around it
	buffer []byte

	keySpace    [64]string
	bufferSpace [4 << 10]byte
}

func newHasher() *hasher {
	h := &hasher{digest: sha256.New()}
	h.keys, h.buffer = h.keySpace[:0], h.bufferSpace[:0]
	return h
}

func (h *hasher) sum() Sum {
	h.flush()
	full := h.digest.Sum(h.buffer)
	return Sum(full[:len(Sum{})])
}

func (h *hasher) flush() {
	_, _ = h.digest.Write(h.buffer) // a hash never fails
	h.buffer = h.buffer[:0]
}

// reserve makes room for the head of one value.
func (h *hasher) reserve() {
	const most = 1 + binary.MaxVarintLen64
	if len(h.buffer)+most > cap(h.buffer) {
		h.flush()
	}
}

// head begins a value of a kind. A kind with several parts needs a call of close at its end.
func (h *hasher) head(kind byte, number int) {
	h.reserve()
	h.buffer = binary.AppendUvarint(append(h.buffer, kind), uint64(number))
}

func (h *hasher) close() {
	h.reserve()
	h.buffer = append(h.buffer, 'e')
}

func (h *hasher) text(kind byte, text string) {
	h.head(kind, len(text))
	for text != "" {
		if len(h.buffer) == cap(h.buffer) {
			h.flush()
		}
		part := min(len(text), cap(h.buffer)-len(h.buffer))
		h.buffer, text = append(h.buffer, text[:part]...), text[part:]
	}
}

func (h *hasher) bits(kind byte, bits uint64) {
	h.reserve()
	h.buffer = binary.BigEndian.AppendUint64(append(h.buffer, kind), bits)
}

// value adds any value of an unstructured object.
func (h *hasher) value(value any) {
	switch value := value.(type) {
	case map[string]any:
		h.fields(value)
	case []any:
		h.head('l', len(value))
		for _, item := range value {
			h.value(item)
		}
	case string:
		h.text('s', value)
	case bool:
		if value {
			h.head('b', 1)
			return
		}
		h.head('b', 0)
	case nil:
		h.head('z', 0)
	default:
		h.number(value)
	}
}

// number adds a number of any of the types that decoders use.
func (h *hasher) number(value any) {
	switch value := value.(type) {
	case int64:
		h.bits('i', uint64(value))
	case int:
		h.bits('i', uint64(value))
	case float64:
		if whole := int64(value); float64(whole) == value {
			h.bits('i', uint64(whole))
			return
		}
		h.bits('f', math.Float64bits(value))
	default:
		h.text('n', fmt.Sprint(value))
	}
}

func (h *hasher) fields(fields map[string]any) {
	h.head('m', len(fields))
	start := h.push(fields)
	for i, end := start, len(h.keys); i < end; i++ { // by index: deeper maps may move the stack
		key := h.keys[i]
		h.text('k', key)
		h.value(fields[key])
	}
	h.pop(start)
}

// push puts the keys of a map on the stack, in order, and returns the position of the first.
func (h *hasher) push(fields map[string]any) (start int) {
	start = len(h.keys)
	for key := range fields {
		h.keys = append(h.keys, key)
	}
	slices.Sort(h.keys[start:])
	return start
}

func (h *hasher) pop(start int) {
	h.keys = h.keys[:start]
}
