// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const (
	// maxPublicKeys bounds the keys of a list: each signature is compared with every one of them.
	maxPublicKeys = 32
	// maxRSABits bounds RSA keys, because longer ones take too long.
	maxRSABits = 8192
	// idDigits are the digits of a key's sum that name it in messages.
	idDigits = 16
)

// PublicKeys are keys whose bare signatures count, as cosign makes them. They are immutable and may
// be used concurrently.
type PublicKeys struct{ keys []publicKey }

// publicKey is one key of a list.
type publicKey struct {
	key any // *ecdsa.PublicKey, ed25519.PublicKey or *rsa.PublicKey
	id  string
}

// ParsePublicKeys parses PEM blocks of the type PUBLIC KEY (PKIX), one after the other. Text between
// them is ignored. The error is a *KeyError of [ListCosign], also where there is no key.
func ParsePublicKeys(text string) (*PublicKeys, error) {
	parsed := &PublicKeys{}
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		number := len(parsed.keys) + 1
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, &KeyError{ListCosign, "holds a private key; give public keys only"}
		}
		if number > maxPublicKeys {
			return nil, &KeyError{ListCosign, fmt.Sprintf("holds more than %d keys", maxPublicKeys)}
		}
		key, err := parsePublicKey(block)
		if err != nil {
			return nil, &KeyError{ListCosign, fmt.Sprintf("has block %d, which %v", number, err)}
		}
		parsed.keys = append(parsed.keys, key)
	}
	// The rest may be a block that does not parse, and then a key would be missing silently.
	if strings.Contains(string(rest), "-----BEGIN") {
		return nil, &KeyError{ListCosign, fmt.Sprintf("has block %d, which is not PEM", len(parsed.keys)+1)}
	}
	if len(parsed.keys) == 0 {
		return nil, &KeyError{ListCosign, "holds no public key in PEM form, as cosign writes it to cosign.pub"}
	}
	return parsed, nil
}

func parsePublicKey(block *pem.Block) (publicKey, error) {
	if block.Type != "PUBLIC KEY" {
		return publicKey{}, fmt.Errorf("is of the type %.40q; it must be PUBLIC KEY", block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return publicKey{}, errors.New("is not a public key that Leat can read")
	}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() && k.Curve != elliptic.P521() {
			return publicKey{}, fmt.Errorf("is on the curve %s; it must be P-256, P-384 or P-521", k.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return publicKey{}, fmt.Errorf("is an RSA key of %d bits; it must have %d to %d", bits, minRSABits, maxRSABits)
		}
	default:
		return publicKey{}, errors.New("is neither ECDSA, Ed25519 nor RSA")
	}
	sum := sha256.Sum256(block.Bytes)
	return publicKey{key: key, id: hex.EncodeToString(sum[:])[:idDigits]}, nil
}

// IDs returns the names of the keys in messages: the first 16 digits of the SHA-256 of each key in
// DER form.
func (p *PublicKeys) IDs() []string {
	ids := make([]string, 0, len(p.keys))
	for _, k := range p.keys {
		ids = append(ids, k.id)
	}
	return ids
}

// Verify reports whether one of the keys made the signature of the message. ECDSA signatures are
// ASN.1 over SHA-256, or over the hash that fits the curve; RSA ones are PKCS #1 v1.5 or PSS over
// SHA-256; Ed25519 ones are of the message itself or of its SHA-512.
func (p *PublicKeys) Verify(message, signature []byte) bool {
	for _, k := range p.keys {
		if k.verify(message, signature) {
			return true
		}
	}
	return false
}

func (k publicKey) verify(message, signature []byte) bool {
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		for _, hash := range hashesOf(key.Curve) {
			if ecdsa.VerifyASN1(key, sumOf(hash, message), signature) {
				return true
			}
		}
	case ed25519.PublicKey:
		sum := sha512.Sum512(message)
		return ed25519.Verify(key, message, signature) ||
			ed25519.VerifyWithOptions(key, sum[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
	case *rsa.PublicKey:
		sum := sumOf(crypto.SHA256, message)
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, signature) == nil || rsa.VerifyPSS(key, crypto.SHA256, sum, signature, nil) == nil
	}
	return false
}

// hashesOf returns the hashes that signers use with a curve: cosign always took SHA-256 once, and
// takes what fits the curve now.
func hashesOf(curve elliptic.Curve) []crypto.Hash {
	switch curve {
	case elliptic.P384():
		return []crypto.Hash{crypto.SHA384, crypto.SHA256}
	case elliptic.P521():
		return []crypto.Hash{crypto.SHA512, crypto.SHA256}
	default:
		return []crypto.Hash{crypto.SHA256}
	}
}

func sumOf(hash crypto.Hash, message []byte) []byte {
	h := hash.New()
	_, _ = h.Write(message) // hashes take everything
	return h.Sum(nil)
}
