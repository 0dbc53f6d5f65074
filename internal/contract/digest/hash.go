// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package digest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// ErrMismatch is matched by every [MismatchError]: some content does not match its digest.
var ErrMismatch = errors.New("digest mismatch")

// MismatchError reports which digest was expected and which one the content has.
type MismatchError struct {
	Want Digest // what the content should have hashed to
	Got  Digest // what it hashed to
}

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("%v: got %s, want %s", ErrMismatch, e.Got, e.Want)
}

// Is makes errors.Is(err, ErrMismatch) true.
func (e *MismatchError) Is(target error) bool {
	return target == ErrMismatch
}

// Hasher computes the Digest of the bytes written to it. It is not safe for concurrent use; make
// one with [NewHasher].
type Hasher struct {
	hash hash.Hash
	// sum is where Digest computes. A local would be allocated by every call.
	sum [Size]byte
}

var _ io.Writer = (*Hasher)(nil)

// NewHasher returns a Hasher of empty content.
func NewHasher() *Hasher {
	return &Hasher{hash: sha256.New()}
}

// Write adds content. It takes all of p and never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	return h.hash.Write(p)
}

// Digest returns the digest of everything written so far. More can be written afterwards.
func (h *Hasher) Digest() Digest {
	h.hash.Sum(h.sum[:0])
	return Digest{sum: h.sum}
}

// NewVerifier returns a reader that passes r through and, when r ends, compares the digest of the
// passed bytes with want. It then returns io.EOF if they match, and a [*MismatchError] instead if
// they do not.
//
// The bytes before the end are unverified, so a caller must not act on them (publish, apply, rename
// into place) before it has seen io.EOF. Errors of r are passed on unchanged. The zero want matches
// nothing. The reader is not safe for concurrent use.
func NewVerifier(r io.Reader, want Digest) io.Reader {
	return &verifier{source: r, hasher: NewHasher(), want: want}
}

type verifier struct {
	source io.Reader
	hasher *Hasher
	want   Digest
	end    error // the result of every Read once the source has ended; nil before
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.end != nil {
		return 0, v.end
	}
	n, err := v.source.Read(p)
	_, _ = v.hasher.Write(p[:n]) // a Hasher takes everything and never fails
	if err == nil {
		return n, nil
	}
	v.end = err
	if err == io.EOF {
		v.end = v.verdict()
	}
	return n, v.end
}

func (v *verifier) verdict() error {
	if got := v.hasher.Digest(); got != v.want {
		return &MismatchError{Want: v.want, Got: got}
	}
	return io.EOF
}
