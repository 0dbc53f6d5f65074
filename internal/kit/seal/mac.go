// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Fingerprinter identifies secrets without revealing them: equal contents have equal fingerprints,
// and without the shared secret guesses cannot even be tested. It is safe for concurrent use.
type Fingerprinter struct {
	key []byte
}

// NewFingerprinter derives the key for a purpose, a constant such as "service configuration
// digest". It fails as [NewSealer] does.
func NewFingerprinter(secret []byte, purpose string) (*Fingerprinter, error) {
	key, err := NewFingerprintKey(secret, purpose)
	if err != nil {
		return nil, fmt.Errorf("make fingerprinter: %w", err)
	}
	return &Fingerprinter{key: key}, nil
}

// NewFingerprintKey derives the key of a purpose from a secret, for [FingerprinterOf]. It fails as
// [NewSealer] does.
func NewFingerprintKey(secret []byte, purpose string) ([]byte, error) {
	return deriveKey(secret, "leat fingerprint v1: ", purpose)
}

// FingerprinterOf returns the fingerprinter of a key. One that [NewFingerprintKey] derived makes
// the same fingerprints as [NewFingerprinter] with that secret and purpose. So a fingerprint
// outlives the secret from which its key was derived.
func FingerprinterOf(key []byte) (*Fingerprinter, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("make fingerprinter: key has %d bytes, want %d", len(key), keySize)
	}
	return &Fingerprinter{key: key}, nil
}

// Fingerprint returns the HMAC-SHA256 of the content, as "hmac-sha256:" and 64 hexadecimal digits.
func (f *Fingerprinter) Fingerprint(content []byte) string {
	mac := hmac.New(sha256.New, f.key)
	_, _ = mac.Write(content) // never fails
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}
