// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/leatdev/leat/internal/signers"
	"github.com/leatdev/leat/services/gitcache/internal/provenance"
)

// Verification says who has to have signed what a repository delivers. The zero Verification
// demands no signature.
type Verification struct {
	Mode provenance.Mode
	// PGPKeys are armored OpenPGP public keys, SSHAllowedSigners lines of an OpenSSH
	// allowed_signers file.
	PGPKeys           string
	SSHAllowedSigners string
}

// verificationRules grows when objects are verified in another way than before, so that all of them
// are verified again.
const verificationRules = 1

// Fingerprint names the policy, alike on every replica. It is empty where no signature is demanded.
func (v Verification) Fingerprint() string {
	if v.Mode == provenance.ModeNone {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %q %q", verificationRules, v.Mode, v.PGPKeys, v.SSHAllowedSigners))
	return hex.EncodeToString(sum[:])
}

// Check returns nil if the verification can be used. The error is a *FieldError.
func (v Verification) Check() error {
	_, err := provenance.New(v.Mode, v.PGPKeys, v.SSHAllowedSigners)
	if key, ok := errors.AsType[*signers.KeyError](err); ok {
		return &FieldError{Field: "verification." + string(key.List), Message: "It " + key.Message + "."}
	}
	if errors.Is(err, signers.ErrNoKeys) {
		return &FieldError{Field: "verification.pgp_keys", Message: "A key is required, here or in ssh_allowed_signers."}
	}
	if err != nil {
		return &FieldError{Field: "verification.mode", Message: "It is not known."}
	}
	return nil
}
