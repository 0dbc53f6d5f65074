// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
)

// Signer proves that a text was written by a replica of the same service, even if others can write
// where it is stored, such as in Redis. It uses HMAC-SHA256 (RFC 2104) with a key derived from the
// service's secret and a purpose. It is safe for concurrent use.
type Signer struct {
	keys [][]byte // the first signs, all verify
}

// NewSigner returns a signer for one purpose, such as "replica of the tunnel". A signature for one
// purpose is invalid for any other. The signer also accepts signatures that were made with one of
// the accepted secrets: which belong to replicas that use the next or the previous secret while the
// service's secret is replaced.
func NewSigner(secret []byte, purpose string, accepted ...[]byte) (*Signer, error) {
	s := new(Signer)
	for _, secret := range append([][]byte{secret}, accepted...) {
		key, err := hkdf.Key(sha256.New, secret, nil, "leat row signature v1 "+purpose, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// Sign returns the signature of the parts, in base64url without padding. It also covers the
// boundaries between the parts.
func (s *Signer) Sign(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString(sum(s.keys[0], parts))
}

// Verify reports whether signature is the result of [Signer.Sign] for the same parts, with the
// secret or with one of the accepted ones.
func (s *Signer) Verify(signature string, parts ...string) bool {
	got, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.keys, func(key []byte) bool { return hmac.Equal(got, sum(key, parts)) })
}

func sum(key []byte, parts []string) []byte {
	mac := hmac.New(sha256.New, key)
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
