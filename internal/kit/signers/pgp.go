// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// minRSABits is the length of the shortest RSA key whose signatures are accepted. Shorter keys can
// be broken.
const minRSABits = 2048

// parsePGP parses the consecutive armored blocks of a list. It ignores text between them, which key
// servers add.
func parsePGP(list List, text string) (openpgp.EntityList, error) {
	pgpError := func(format string, args ...any) error { return &KeyError{list, fmt.Sprintf(format, args...)} }
	if strings.Contains(text, "-----BEGIN PGP PRIVATE KEY BLOCK-----") {
		return nil, pgpError("holds a private key; give public keys only")
	}
	var keys openpgp.EntityList
	const begin = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
	for i, block := range strings.Split(text, begin)[1:] {
		found, err := openpgp.ReadArmoredKeyRing(strings.NewReader(begin + block))
		if err != nil {
			return nil, pgpError("has block %d, which is not an armored OpenPGP public key: %v", i+1, err)
		}
		keys = append(keys, found...)
	}
	if len(keys) == 0 && strings.TrimSpace(text) != "" {
		return nil, pgpError("holds no armored OpenPGP public key")
	}
	for _, entity := range keys {
		if entity.PrivateKey != nil {
			return nil, pgpError("holds a private key; give public keys only")
		}
	}
	return keys, nil
}

// canSign reports whether the entity, or one of its subkeys, may sign at the given time.
func canSign(entity *openpgp.Entity, at time.Time) bool {
	ids := []uint64{entity.PrimaryKey.KeyId}
	for _, sub := range entity.Subkeys {
		ids = append(ids, sub.PublicKey.KeyId)
	}
	for _, id := range ids {
		for _, key := range (openpgp.EntityList{entity}).KeysByIdUsage(id, packet.KeyFlagSign) {
			if usable(key, at) == nil {
				return true
			}
		}
	}
	return false
}

func (s *Set) verifyPGP(payload, armored []byte, now time.Time) error {
	block, err := armor.Decode(bytes.NewReader(armored))
	if err != nil {
		return errUnreadable
	}
	sig, err := onlySignature(block, packet.SigTypeBinary) // one over text would ignore changes of line endings and blanks
	if err != nil {
		return err
	}
	return s.verifySignature(payload, sig, now)
}

// verifySignature returns nil if one of the set's keys made the signature of the hashed bytes.
func (s *Set) verifySignature(hashed []byte, sig *packet.Signature, now time.Time) error {
	keys := s.pgp.KeysByIdUsage(*sig.IssuerKeyId, packet.KeyFlagSign)
	if len(keys) == 0 {
		return &RejectedError{fmt.Sprintf("is signed by the PGP key %016X, which may not sign here", *sig.IssuerKeyId)}
	}
	if sig.SigLifetimeSecs != nil && *sig.SigLifetimeSecs != 0 && sig.SigExpired(now) {
		return &RejectedError{"has a signature that has expired"}
	}
	var err error
	for _, key := range keys { // several only if an attacker forged a key with the id of another
		if err = verifyBy(key, hashed, sig); err == nil {
			return nil
		}
	}
	return err
}

var errUnreadable = &RejectedError{"has a PGP signature that cannot be read"}

// onlySignature returns the only signature of a block, which must be of one of the given types.
func onlySignature(block *armor.Block, types ...packet.SignatureType) (*packet.Signature, error) {
	if block.Type != "PGP SIGNATURE" {
		return nil, errUnreadable
	}
	packets := packet.NewReader(block.Body)
	first, err := packets.Next()
	if err != nil {
		return nil, errUnreadable
	}
	sig, ok := first.(*packet.Signature)
	if !ok || sig.IssuerKeyId == nil || !slices.Contains(types, sig.SigType) {
		return nil, errUnreadable
	}
	if _, err := packets.Next(); !errors.Is(err, io.EOF) {
		return nil, &RejectedError{"has more than one PGP signature"}
	}
	return sig, nil
}

func verifyBy(key openpgp.Key, hashed []byte, sig *packet.Signature) error {
	if (*packet.Config)(nil).RejectMessageHashAlgorithm(sig.Hash) {
		return &RejectedError{fmt.Sprintf("has a PGP signature over %s, which is broken", sig.Hash)}
	}
	for _, notation := range sig.Notations {
		if notation.IsCritical {
			return &RejectedError{fmt.Sprintf("has a PGP signature with the unknown critical notation %q", notation.Name)}
		}
	}
	hash, err := sig.PrepareVerify()
	if err != nil {
		return &RejectedError{"has a PGP signature of an unknown kind"}
	}
	_, _ = hash.Write(hashed) // hashes take everything
	if err := key.PublicKey.VerifySignature(hash, sig); err != nil {
		return &RejectedError{fmt.Sprintf("has a PGP signature by %016X that does not fit its content", key.PublicKey.KeyId)}
	}
	if err := usable(key, sig.CreationTime); err != nil {
		return &RejectedError{fmt.Sprintf("is signed by the PGP key %016X, which %v", key.PublicKey.KeyId, err)}
	}
	return nil
}

// usable returns nil if a key could sign at the given time. The library would also compare the time
// of a key's own signatures, and so refuse signatures from before the key was extended.
func usable(key openpgp.Key, at time.Time) error {
	primary := key.Entity.PrimaryKey
	self, _ := key.Entity.PrimarySelfSignature()
	revocations := append(key.Entity.Revocations[:len(key.Entity.Revocations):len(key.Entity.Revocations)], key.Revocations...)
	switch {
	case self == nil || key.SelfSignature == nil:
		return errors.New("has no valid self-signature")
	case revoked(revocations, at):
		return errors.New("is revoked")
	case primary.CreationTime.After(at) || key.PublicKey.CreationTime.After(at):
		return errors.New("was made later")
	case primary.KeyExpired(self, at) || key.PublicKey.KeyExpired(key.SelfSignature, at):
		return errors.New("had expired by then")
	case (*packet.Config)(nil).RejectPublicKeyAlgorithm(key.PublicKey.PubKeyAlgo):
		return errors.New("is of a kind that is no longer safe")
	case isShort(key.PublicKey):
		return fmt.Errorf("has fewer than %d bits", minRSABits)
	}
	return nil
}

func isShort(key *packet.PublicKey) bool {
	if key.PubKeyAlgo != packet.PubKeyAlgoRSA && key.PubKeyAlgo != packet.PubKeyAlgoRSASignOnly {
		return false
	}
	bits, err := key.BitLength()
	return err != nil || bits < minRSABits
}

// revoked reports whether a key was no longer valid at the given time. A key that was replaced or
// retired was valid before that. A key that was revoked for any other reason was never valid,
// because others may have used it.
func revoked(revocations []*packet.Signature, at time.Time) bool {
	for _, r := range revocations {
		soft := r.RevocationReason != nil && (*r.RevocationReason == packet.KeySuperseded || *r.RevocationReason == packet.KeyRetired)
		if !soft || !r.CreationTime.After(at) {
			return true
		}
	}
	return false
}
