// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"time"

	"github.com/leatdev/leat/internal/fielderr"
	"github.com/leatdev/leat/internal/signers"
)

// VerificationMode says what has to be signed.
type VerificationMode string

// The modes.
const (
	VerifyNothing      VerificationMode = ""
	VerifyCommit       VerificationMode = "commit"
	VerifyTag          VerificationMode = "tag"
	VerifyTagAndCommit VerificationMode = "tag_and_commit"
)

// Verification is who has to have signed what a repository delivers. It is comparable.
type Verification struct {
	Mode VerificationMode `json:"mode"`
	// PGPKeys are armored public keys, SSHAllowedSigners lines of an OpenSSH allowed_signers file.
	PGPKeys           string `json:"pgp_keys,omitempty"`
	SSHAllowedSigners string `json:"ssh_allowed_signers,omitempty"`
}

// maxKeysBytes is what gitcache takes of each list.
const maxKeysBytes = 256 << 10

// validate also refuses keys none of which may sign any more: that they expired would otherwise be
// noticed at the next push.
func (v Verification) validate(field string) error {
	switch v.Mode {
	case VerifyCommit, VerifyTag, VerifyTagAndCommit:
	case VerifyNothing:
		return nil
	default:
		return fielderr.New(field+".mode", "must be commit, tag or tag_and_commit")
	}
	if n := max(len(v.PGPKeys), len(v.SSHAllowedSigners)); n > maxKeysBytes {
		return fielderr.New(field, "has a list of %d bytes; at most %d are allowed", n, maxKeysBytes)
	}
	set, err := signers.Parse(v.PGPKeys, v.SSHAllowedSigners)
	if err == nil {
		err = set.Usable(time.Now())
	}
	if key, ok := errors.AsType[*signers.KeyError](err); ok {
		return fielderr.New(field+"."+string(key.List), "%s", key.Message)
	}
	if err != nil {
		return fielderr.New(field+"."+string(signers.ListPGP), "or ssh_allowed_signers is required")
	}
	return nil
}
