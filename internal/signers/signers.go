// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package signers holds the public keys of those who may sign Git objects, and verifies their
// detached signatures, which are OpenPGP's or SSH's.
//
// A key counts as it was when the signature says it was made: a commit stays good when the key that
// signed it expires, is replaced or retired later. Only a key that was revoked as compromised, or
// without a reason, takes all its signatures with it.
package signers

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// List names one of the two lists of keys.
type List string

// The lists, by the names that fields have on the wire.
const (
	ListPGP List = "pgp_keys"
	ListSSH List = "ssh_allowed_signers"
)

// KeyError tells which list cannot be used, and why.
type KeyError struct {
	List    List
	Message string // a phrase that follows the list's name
}

// Error implements error.
func (e *KeyError) Error() string { return string(e.List) + " " + e.Message }

// ErrNoKeys means that both lists are empty.
var ErrNoKeys = errors.New("no key is given")

// RejectedError tells why a signature does not count.
type RejectedError struct {
	Why string // a phrase that follows the name of what was signed
}

// Error implements error.
func (e *RejectedError) Error() string { return e.Why }

// Set is who may sign. It is immutable and may be used concurrently.
type Set struct {
	pgp openpgp.EntityList
	ssh []allowed
}

// Parse reads armored OpenPGP public keys, any number of blocks one after the other, and lines of
// an OpenSSH allowed_signers file, of which those without principals, bare public keys, are for
// everybody. The error is a *KeyError, or ErrNoKeys where both are empty.
func Parse(pgpKeys, sshAllowedSigners string) (*Set, error) {
	if strings.TrimSpace(pgpKeys) == "" && strings.TrimSpace(sshAllowedSigners) == "" {
		return nil, ErrNoKeys
	}
	keys, err := parsePGP(pgpKeys)
	if err != nil {
		return nil, err
	}
	lines, err := parseAllowed(sshAllowedSigners)
	if err != nil {
		return nil, err
	}
	return &Set{pgp: keys, ssh: lines}, nil
}

// Usable reports whether any key may sign at the given time. The error is a *KeyError.
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
		return &KeyError{ListPGP, "holds only keys that have expired, are revoked, or do not sign"}
	}
	return &KeyError{ListSSH, "holds no line that is valid at this time for Git"}
}

// Signed is what a signature has to be good for.
type Signed struct {
	Payload []byte
	// Signature is armored, and nothing but one signature.
	Signature []byte
	// At is when the payload says it was made. SSH signatures have no time of their own.
	At time.Time
}

const (
	pgpBegin = "-----BEGIN PGP SIGNATURE-----"
	pgpEnd   = "-----END PGP SIGNATURE-----"
	sshBegin = "-----BEGIN SSH SIGNATURE-----"
	sshEnd   = "-----END SSH SIGNATURE-----"
)

// Verify reports whether one of the set's keys signed it. The error is a *RejectedError. Now
// matters only to signatures that are made to expire.
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
