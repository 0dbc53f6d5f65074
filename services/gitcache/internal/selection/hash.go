// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"

	"github.com/leatdev/leat/internal/digest"
)

// Hash hashes lists of texts so that no two sequences of lists hash alike.
type Hash struct{ hasher *digest.Hasher }

// NewHash returns a hash of things of one kind.
func NewHash(kind string) *Hash {
	h := &Hash{digest.NewHasher()}
	h.Add(kind)
	return h
}

// Add adds a list.
func (h *Hash) Add(list ...string) {
	_, _ = fmt.Fprintf(h.hasher, "%d\n", len(list)) // a hash takes everything
	for _, text := range list {
		_, _ = fmt.Fprintf(h.hasher, "%d\n%s", len(text), text)
	}
}

// Sum returns the hash of what was added.
func (h *Hash) Sum() string { return h.hasher.Digest().Hex() }
