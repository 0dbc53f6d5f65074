// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal encrypts small secrets that Leat has to store, such as the credentials of a
// repository.
//
// The cipher is AES-256-GCM. The key of a purpose comes from a secret by HKDF-SHA256 with the
// purpose as its info. A text that is sealed for one purpose therefore does not open for another,
// and one secret serves many purposes.
//
// A sealed text is the byte 2, the id of its key ([KeyID]), the nonce and the ciphertext. Texts of
// the earlier form begin with the byte 1 and do not name their key. They still open.
package seal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// MinSecret is the length of the shortest secret that [NewSealer] accepts, in bytes.
const MinSecret = 32

const (
	keySize = 32
	// version begins every sealed text. A change of cipher or key derivation needs another number.
	version byte = 2
	// versionWithoutID began the texts of the form that did not name its key.
	versionWithoutID byte = 1
)

// ErrSealed is in the chain of every error of [Sealer.Open]: the bytes were changed, are cut short,
// or were sealed with another secret, purpose or context. It does not distinguish them, and it
// never holds any of the content.
var ErrSealed = errors.New("sealed content does not open")

// ErrUnknownKey is in the chain of the error, beside [ErrSealed], for a text that names a key that
// the ring does not have. A ring that is read again may have it.
var ErrUnknownKey = errors.New("its key is not known here")

// Sealer seals and opens for one purpose. It is safe for concurrent use.
type Sealer struct {
	keyring *Keyring
	purpose string
}

// NewSealer returns the sealer of a purpose, a constant such as "repository credential", with one
// secret. It fails when the secret is shorter than [MinSecret] or the purpose is empty.
func NewSealer(secret []byte, purpose string) (*Sealer, error) {
	key, err := NewKey(secret)
	if err != nil {
		return nil, fmt.Errorf("make sealer: %w", err)
	}
	return NewKeyring(key).Sealer(purpose)
}

// deriveKey derives the key of one use of the secret for a purpose.
func deriveKey(secret []byte, use, purpose string) ([]byte, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("secret has %d bytes, want at least %d", len(secret), MinSecret)
	}
	if purpose == "" {
		return nil, errors.New("purpose is empty")
	}
	return hkdf.Key(sha256.New, secret, nil, use+purpose, keySize)
}

// Seal encrypts plain with the first key of the ring and binds it to aad, the context it belongs to
// (for example the repository's name): [Sealer.Open] needs the same. Nonces are random, so one key
// suffices for about four billion seals.
func (s *Sealer) Seal(plain, aad []byte) ([]byte, error) {
	r := s.keyring.ring.Load()
	aead, err := r.cipher(r.keys[0], s.purpose)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	prefix := r.keys[0].id.Prefix()
	return append(prefix, aead.Seal(nil, nil, plain, bind(prefix, aad))...), nil //nolint:gosec // this AEAD makes its own random nonce and puts it first
}

// Open decrypts what [Sealer.Seal] made with a key of the ring and the same purpose and aad. Every
// failure is [ErrSealed]; it is also [ErrUnknownKey] if the text names a key that the ring does not
// have.
func (s *Sealer) Open(sealed, aad []byte) ([]byte, error) {
	r := s.keyring.ring.Load()
	if len(sealed) > 0 && sealed[0] == versionWithoutID {
		return s.openWithoutID(r, sealed, aad)
	}
	id, ok := SealedWith(sealed)
	if !ok {
		return nil, ErrSealed
	}
	key, ok := r.byID(id)
	if !ok {
		return nil, fmt.Errorf("%w: key %s: %w", ErrSealed, id, ErrUnknownKey)
	}
	return s.openWith(r, key, sealed[:1+idSize], sealed[1+idSize:], aad)
}

// openWithoutID tries all keys.
func (s *Sealer) openWithoutID(r *ring, sealed, aad []byte) ([]byte, error) {
	for _, key := range r.keys {
		if plain, err := s.openWith(r, key, sealed[:1], sealed[1:], aad); err == nil {
			return plain, nil
		}
	}
	return nil, ErrSealed
}

func (s *Sealer) openWith(r *ring, key Key, prefix, text, aad []byte) ([]byte, error) {
	aead, err := r.cipher(key, s.purpose)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	plain, err := aead.Open(nil, nil, text, bind(prefix, aad))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// IsCurrent reports whether the first key of the ring has sealed the text. It does not verify that
// the text opens.
func (s *Sealer) IsCurrent(sealed []byte) bool {
	id, ok := SealedWith(sealed)
	return ok && id == s.keyring.Current()
}

// SealedWith returns the id of the key that a sealed text names. It reports false for a text that
// names none, such as one of the earlier form.
func SealedWith(sealed []byte) (KeyID, bool) {
	if len(sealed) < 1+idSize || sealed[0] != version {
		return KeyID{}, false
	}
	return KeyID(sealed[1 : 1+idSize]), true
}

// bind authenticates the prefix, too: a text of one form or key cannot be turned into one of
// another.
func bind(prefix, aad []byte) []byte {
	return append(append(make([]byte, 0, len(prefix)+len(aad)), prefix...), aad...)
}
