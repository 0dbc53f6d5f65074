// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal encrypts small secrets that Leat has to store, such as the credentials of a
// repository.
//
// The cipher is AES-256-GCM. The key comes from a shared secret by HKDF-SHA256 with the purpose as
// its info. A text that is sealed for one purpose therefore does not open for another, and one
// secret serves many purposes.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
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
	version byte = 1
)

// ErrSealed is in the chain of every error of [Sealer.Open]: the bytes were changed, are cut short,
// or were sealed with another secret, purpose or context. It does not say which, and it never holds
// any of the content.
var ErrSealed = errors.New("sealed content does not open")

// Sealer seals and opens for one purpose. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
}

// NewSealer derives the key for a purpose, a constant such as "repository credential". It fails
// when the secret is shorter than [MinSecret] or the purpose is empty.
func NewSealer(secret []byte, purpose string) (*Sealer, error) {
	key, err := deriveKey(secret, "leat seal v1: ", purpose)
	if err != nil {
		return nil, fmt.Errorf("make sealer: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return &Sealer{aead: aead}, nil
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

// Seal encrypts plain and binds it to aad, the context it belongs to (for example the repository's
// name): [Sealer.Open] needs the same. Nonces are random, so one secret suffices for about four
// billion seals.
func (s *Sealer) Seal(plain, aad []byte) ([]byte, error) {
	sealed := s.aead.Seal(nil, nil, plain, bind(aad)) //nolint:gosec // this AEAD makes its own random nonce and puts it first
	return append([]byte{version}, sealed...), nil
}

// Open decrypts what [Sealer.Seal] made with the same secret, purpose and aad. Every failure is
// [ErrSealed].
func (s *Sealer) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, ErrSealed
	}
	plain, err := s.aead.Open(nil, nil, sealed[1:], bind(aad))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// bind authenticates the version too, so that a later one cannot be turned into this one.
func bind(aad []byte) []byte {
	return append([]byte{version}, aad...)
}
