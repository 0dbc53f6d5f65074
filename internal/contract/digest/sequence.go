// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package digest

import "encoding/binary"

// Sequence digests values one after the other, such that different sequences of values never have
// the same digest: a text begins with its length, and a number has eight bytes. Its form is a
// contract, because such digests are stored and compared by other versions.
type Sequence struct {
	hasher  *Hasher
	scratch []byte
	// room is the first memory of scratch, in which most values fit.
	room [128]byte
}

// NewSequence returns a sequence that begins with these texts.
func NewSequence(texts ...string) *Sequence {
	s := &Sequence{hasher: NewHasher()}
	s.scratch = s.room[:0]
	for _, text := range texts {
		s.Text(text)
	}
	return s
}

// Text adds a text.
func (s *Sequence) Text(text string) {
	add(s, text)
}

// TextBytes is Text for a text that is in a buffer. It does not keep the buffer.
func (s *Sequence) TextBytes(text []byte) {
	add(s, text)
}

func add[T string | []byte](s *Sequence, text T) {
	s.scratch = binary.BigEndian.AppendUint64(s.scratch[:0], uint64(len(text)))
	s.scratch = append(s.scratch, text...)
	_, _ = s.hasher.Write(s.scratch) // never fails
}

// Number adds a number.
func (s *Sequence) Number(n int64) {
	s.scratch = binary.BigEndian.AppendUint64(s.scratch[:0], uint64(n))
	_, _ = s.hasher.Write(s.scratch) // never fails
}

// Digest returns the digest of what was added until now.
func (s *Sequence) Digest() Digest { return s.hasher.Digest() }
