// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package signers

import (
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"golang.org/x/crypto/ssh"
)

// List names one of the lists of keys.
type List string

// The lists, by the names of their fields on the wire.
const (
	ListPGP List = "pgp_keys"
	ListSSH List = "ssh_allowed_signers"

	ListCosign     List = "cosign_keys"
	ListProvenance List = "provenance_keys"
)

// KeyError reports which list cannot be used, and why.
type KeyError struct {
	List    List
	Message string // a phrase that follows the list's name
}

// RejectedError reports why a signature is not accepted.
type RejectedError struct {
	Why string // a phrase that follows the name of what was signed
}

// Set holds the permitted signers. It is immutable and may be used concurrently.
type Set struct {
	pgp     openpgp.EntityList
	pgpList List // the list that pgp comes from
	ssh     []allowed
}

// allowed is one line of an allowed_signers file.
type allowed struct {
	key         ssh.PublicKey
	namespaces  string    // a list of patterns; empty: any
	after       time.Time // zero: no lower bound
	before      time.Time // zero: no upper bound
	description string    // the key's fingerprint
}
