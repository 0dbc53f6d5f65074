// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"bytes"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// ParseProvenance parses armored OpenPGP public keys for [Set.VerifyClearsigned]. The error is a
// *KeyError of [ListProvenance], also where there is no key.
func ParseProvenance(keys string) (*Set, error) {
	if strings.TrimSpace(keys) == "" {
		return nil, &KeyError{ListProvenance, "holds no armored OpenPGP public key"}
	}
	parsed, err := parsePGP(ListProvenance, keys)
	if err != nil {
		return nil, err
	}
	return &Set{pgp: parsed, pgpList: ListProvenance}, nil
}

// VerifyClearsigned returns the text of an OpenPGP message with a cleartext signature (RFC 9580,
// section 7) that one of the set's keys made. Trailing blanks of lines are not signed, and not
// returned. A message with anything around it is rejected, so that it is not taken for signed. The
// error is a *RejectedError.
func (s *Set) VerifyClearsigned(message []byte, now time.Time) ([]byte, error) {
	message = bytes.TrimSpace(message)
	block, rest := clearsign.Decode(message)
	switch {
	case block == nil:
		return nil, &RejectedError{"has no clear-signed OpenPGP message that can be read"}
	case !bytes.HasPrefix(message, []byte("-----BEGIN PGP SIGNED MESSAGE-----")) || len(bytes.TrimSpace(rest)) > 0:
		return nil, &RejectedError{"has text around its clear-signed message, which nobody signed"}
	}
	sig, err := onlySignature(block.ArmoredSignature, packet.SigTypeText, packet.SigTypeBinary)
	if err != nil {
		return nil, err
	}
	if err := s.verifySignature(block.Bytes, sig, now); err != nil {
		return nil, err
	}
	return block.Plaintext, nil
}
