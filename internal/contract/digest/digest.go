// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package digest names content by its SHA-256 hash.
//
// A [Digest] is a small comparable value: it is a map key, an equality check and a file name. In
// Leat it always names uncompressed content, so that the same content has the same digest
// regardless of the compressor that carried it.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Size is the length of a digest in bytes.
const Size = sha256.Size

// prefix names the algorithm in the text form. There is one algorithm; a second one would get
// another prefix.
const prefix = "sha256:"

// ErrInvalid is in the chain of every error that [Parse] and [Digest.UnmarshalText] return.
var ErrInvalid = errors.New("invalid digest")

// Digest is the SHA-256 hash of some content.
//
// The zero Digest stands for "no digest": an absent field holds it, and no content has it. Digests
// are comparable with == and may be map keys.
type Digest struct {
	sum [Size]byte
}

// FromBytes hashes content.
func FromBytes(content []byte) Digest {
	return Digest{sum: sha256.Sum256(content)}
}

// FromSum makes a Digest of an already computed SHA-256 sum. The all-zero sum gives the zero
// Digest.
func FromSum(sum [Size]byte) Digest {
	return Digest{sum: sum}
}

// Parse reads the text form: "sha256:" and 64 lower-case hexadecimal digits. There is exactly one
// spelling of a digest, so upper case, white space and a missing prefix are errors, and so are the
// empty string and the all-zero hash: where a digest may be absent, test for "" first or use
// [Digest.UnmarshalText]. Every error matches [ErrInvalid].
func Parse(text string) (Digest, error) {
	digits, found := bytes.CutPrefix([]byte(text), []byte(prefix))
	if !found {
		return Digest{}, fmt.Errorf("%w %q: want it to begin with %q", ErrInvalid, shorten(text), prefix)
	}
	var d Digest
	if len(digits) != hex.EncodedLen(Size) {
		return Digest{}, fmt.Errorf("%w %q: got %d hexadecimal digits, want %d",
			ErrInvalid, shorten(text), len(digits), hex.EncodedLen(Size))
	}
	if _, err := hex.Decode(d.sum[:], digits); err != nil || !bytes.Equal(digits, bytes.ToLower(digits)) {
		return Digest{}, fmt.Errorf("%w %q: want lower-case hexadecimal digits", ErrInvalid, text)
	}
	if d.IsZero() {
		return Digest{}, fmt.Errorf("%w %q: the zero digest names no content", ErrInvalid, text)
	}
	return d, nil
}

// String returns the text form that [Parse] reads, or "" for the zero Digest.
func (d Digest) String() string {
	var room [len(prefix) + 2*Size]byte
	return string(d.appendText(room[:0]))
}

func (d Digest) appendText(to []byte) []byte {
	if d.IsZero() {
		return to
	}
	return hex.AppendEncode(append(to, prefix...), d.sum[:])
}

// Hex returns the 64 lower-case hexadecimal digits without the algorithm, or "" for the zero
// Digest. It is safe as a file name.
func (d Digest) Hex() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d.sum[:])
}

// Bytes returns a copy of the hash itself, 32 bytes.
func (d Digest) Bytes() []byte {
	return bytes.Clone(d.sum[:])
}

// IsZero reports whether d is the zero Digest, which stands for "no digest".
func (d Digest) IsZero() bool {
	return d == Digest{}
}

// Compare orders digests by their bytes, as their text forms order: -1, 0 or +1. The zero Digest
// comes first.
func (d Digest) Compare(other Digest) int {
	return bytes.Compare(d.sum[:], other.sum[:])
}

// AppendText implements [encoding.TextAppender] with the text of String, and never fails.
func (d Digest) AppendText(to []byte) ([]byte, error) {
	return d.appendText(to), nil
}

// MarshalText implements [encoding.TextMarshaler]; the zero Digest becomes the empty text.
func (d Digest) MarshalText() ([]byte, error) {
	return d.appendText(nil), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler]. Unlike [Parse] it reads the empty text as
// the zero Digest, so that what MarshalText wrote always comes back.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// shorten keeps an error message readable when the text is a whole document.
func shorten(text string) string {
	const enough = 80
	if len(text) <= enough {
		return text
	}
	return text[:enough] + "…"
}
