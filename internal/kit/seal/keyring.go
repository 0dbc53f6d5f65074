// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// idSize is the length of a [KeyID] in bytes.
const idSize = 8

// KeyID identifies a key without revealing it. Every sealed text begins with the id of its key. Ids
// are derived from keys, so the same key has the same id everywhere.
type KeyID [idSize]byte

// String returns 16 hexadecimal digits.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// Prefix returns the bytes with which every text begins that the key with this id has sealed. A
// database finds the texts of other keys by it.
func (id KeyID) Prefix() []byte { return append([]byte{version}, id[:]...) }

// ParseKeyID parses what [KeyID.String] returned.
func ParseKeyID(text string) (KeyID, error) {
	var id KeyID
	if n, err := hex.Decode(id[:], []byte(text[:min(len(text), 2*idSize)])); err != nil || n != idSize || len(text) != 2*idSize {
		return KeyID{}, fmt.Errorf("%q is not the id of a key", text)
	}
	return id, nil
}

// Key is a secret from which a [Keyring] derives the keys of all purposes. It must not be printed.
type Key struct {
	id     KeyID
	secret []byte
}

// NewKey returns the key of a secret. It fails when the secret is shorter than [MinSecret].
func NewKey(secret []byte) (Key, error) {
	if len(secret) < MinSecret {
		return Key{}, fmt.Errorf("secret has %d bytes, want at least %d", len(secret), MinSecret)
	}
	text, err := hkdf.Key(sha256.New, secret, nil, "leat seal key id v1", idSize)
	if err != nil {
		return Key{}, fmt.Errorf("derive id of key: %w", err)
	}
	return Key{id: KeyID(text), secret: secret}, nil
}

// ID returns the key's id.
func (k Key) ID() KeyID { return k.id }

// Keyring is a list of keys that changes while its sealers are in use: the first key seals, and
// every key opens what it has sealed. It is safe for concurrent use.
type Keyring struct {
	ring atomic.Pointer[ring]
}

// NewKeyring returns a ring of keys. Keys that are given more than once count once.
func NewKeyring(first Key, others ...Key) *Keyring {
	k := new(Keyring)
	k.Replace(first, others...)
	return k
}

// Replace replaces all keys at once. A text whose key is not among the new ones no longer opens.
func (k *Keyring) Replace(first Key, others ...Key) {
	k.ring.Store(&ring{keys: append([]Key{first}, others...)})
}

// Current returns the id of the key that seals.
func (k *Keyring) Current() KeyID { return k.ring.Load().keys[0].id }

// Sealer returns the sealer of a purpose, a constant such as "repository credential". It follows
// later changes of the ring. It fails if the purpose is empty.
func (k *Keyring) Sealer(purpose string) (*Sealer, error) {
	if purpose == "" {
		return nil, errors.New("make sealer: purpose is empty")
	}
	return &Sealer{keyring: k, purpose: purpose}, nil
}

// ring is one state of a keyring. It derives the cipher of a key and a purpose when it is first
// needed.
type ring struct {
	keys    []Key
	ciphers sync.Map // of cipherName: cipher.AEAD
}

type cipherName struct {
	id      KeyID
	purpose string
}

func (r *ring) byID(id KeyID) (Key, bool) {
	for _, key := range r.keys {
		if key.id == id {
			return key, true
		}
	}
	return Key{}, false
}

func (r *ring) cipher(key Key, purpose string) (cipher.AEAD, error) {
	name := cipherName{id: key.id, purpose: purpose}
	if known, ok := r.ciphers.Load(name); ok {
		if aead, ok := known.(cipher.AEAD); ok {
			return aead, nil
		}
	}
	derived, err := deriveKey(key.secret, "leat seal v1: ", purpose)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	r.ciphers.Store(name, aead)
	return aead, nil
}
