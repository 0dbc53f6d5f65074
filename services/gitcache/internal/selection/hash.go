// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"encoding/binary"

	"github.com/leatdev/leat/internal/contract/digest"
)

// Hash hashes lists of texts so that no two sequences of lists hash alike.
type Hash struct {
	hasher *digest.Hasher
	buffer []byte
}

// NewHash returns a hash of things of one kind.
func NewHash(kind string) *Hash {
	h := &Hash{hasher: digest.NewHasher()}
	h.Add(kind)
	return h
}

// Add adds a list.
func (h *Hash) Add(list ...string) {
	h.buffer = binary.AppendUvarint(h.buffer[:0], uint64(len(list)))
	for _, text := range list {
		h.buffer = append(binary.AppendUvarint(h.buffer, uint64(len(text))), text...)
	}
	_, _ = h.hasher.Write(h.buffer) // a hash takes everything
}

// Sum returns the hash of what was added.
func (h *Hash) Sum() string { return h.hasher.Digest().Hex() }
