// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package signers holds the public keys of permitted signers and verifies what they signed: Git
// objects by detached OpenPGP and SSH signatures ([Parse]), provenance files of charts by clear-signed
// OpenPGP messages ([ParseProvenance]), and artifacts by bare signatures ([ParsePublicKeys]).
//
// An OpenPGP or SSH key is judged at the time when the signature was made: a commit stays valid when its key
// expires, is replaced or is retired later. A key that was revoked as compromised, or without a
// reason, invalidates all of its signatures.
package signers

import (
	"bytes"
	"errors"
	"strings"
	"time"
)

// Error implements error.
func (e *KeyError) Error() string { return string(e.List) + " " + e.Message }

// ErrNoKeys means that both lists of [Parse] are empty.
var ErrNoKeys = errors.New("no key is given")

// Error implements error.
func (e *RejectedError) Error() string { return e.Why }

// Parse parses armored OpenPGP public keys, any number of blocks, and lines of an OpenSSH
// allowed_signers file. A line without principals, which is a bare public key, applies to every
// principal. The error is a *KeyError, or ErrNoKeys if both are empty.
func Parse(pgpKeys, sshAllowedSigners string) (*Set, error) {
	if strings.TrimSpace(pgpKeys) == "" && strings.TrimSpace(sshAllowedSigners) == "" {
		return nil, ErrNoKeys
	}
	keys, err := parsePGP(ListPGP, pgpKeys)
	if err != nil {
		return nil, err
	}
	lines, err := parseAllowed(sshAllowedSigners)
	if err != nil {
		return nil, err
	}
	return &Set{pgp: keys, pgpList: ListPGP, ssh: lines}, nil
}

// Usable returns nil if any key may sign at the given time. The error is a *KeyError.
func (s *Set) Usable(at time.Time) error {
	for _, entity := range s.pgp {
		if canSign(entity, at) {
			return nil
		}
	}
	for _, line := range s.ssh {
		if line.validAt(at) == nil {
			return nil
		}
	}
	if len(s.pgp) > 0 {
		return &KeyError{s.pgpList, "holds only keys that have expired, are revoked, or cannot sign"}
	}
	return &KeyError{ListSSH, "holds no line that is valid for Git at this time"}
}

// Signed is a signed object with its signature.
type Signed struct {
	Payload []byte
	// Signature is exactly one armored signature.
	Signature []byte
	// At is when the payload was made, by its own account. SSH signatures carry no time.
	At time.Time
}

const (
	pgpBegin = "-----BEGIN PGP SIGNATURE-----"
	pgpEnd   = "-----END PGP SIGNATURE-----"
	sshBegin = "-----BEGIN SSH SIGNATURE-----"
	sshEnd   = "-----END SSH SIGNATURE-----"
)

// Verify returns nil if one of the set's keys made the signature. The error is a *RejectedError.
// now matters only to signatures that expire.
func (s *Set) Verify(signed Signed, now time.Time) error {
	armored := bytes.TrimSpace(signed.Signature)
	switch {
	case len(armored) == 0:
		return &RejectedError{"is not signed"}
	case isBlock(armored, pgpBegin, pgpEnd):
		return s.verifyPGP(signed.Payload, armored, now)
	case isBlock(armored, sshBegin, sshEnd):
		return s.verifySSH(signed.Payload, armored, signed.At)
	case bytes.HasPrefix(armored, []byte(pgpBegin)), bytes.HasPrefix(armored, []byte(sshBegin)):
		return &RejectedError{"has more than one signature, or one that is cut off"}
	default:
		return &RejectedError{"is signed, but with neither PGP nor SSH"}
	}
}

// isBlock reports whether text is one armored block and nothing else.
func isBlock(text []byte, begin, end string) bool {
	return bytes.HasPrefix(text, []byte(begin)) && bytes.HasSuffix(text, []byte(end)) &&
		bytes.Count(text, []byte("-----BEGIN ")) == 1 && bytes.Count(text, []byte("-----END ")) == 1
}
