// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package provenance judges commits and annotated tags by who signed them.
package provenance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/signers"
)

// Policy selects what has to be signed, and by whom. It is immutable and may be used concurrently.
type Policy struct {
	Mode    upstream.Mode
	signers *signers.Set
}

// New makes the policy of a repository's verification. It returns the errors of signers.Parse.
func New(v upstream.Verification) (*Policy, error) {
	switch v.Mode {
	case upstream.ModeCommit, upstream.ModeTag, upstream.ModeTagAndCommit:
	case upstream.ModeNone:
		return &Policy{}, nil
	default:
		return nil, fmt.Errorf("unknown mode of verification %q", v.Mode)
	}
	set, err := signers.Parse(v.PGPKeys, v.SSHAllowedSigners)
	if err != nil {
		return nil, err
	}
	return &Policy{Mode: v.Mode, signers: set}, nil
}

// rulesVersion grows when objects are verified in another way than before, so that all of them are
// verified again.
const rulesVersion = 1

// Fingerprint identifies a verification, with the same text on every replica. It is empty if no
// signature is required.
func Fingerprint(v upstream.Verification) string {
	if v.Mode == upstream.ModeNone {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %q %q", rulesVersion, v.Mode, v.PGPKeys, v.SSHAllowedSigners))
	return hex.EncodeToString(sum[:])
}

// VerifyCommit reports whether one of the policy's keys signed a commit. The error is a
// *signers.RejectedError.
func (p *Policy) VerifyCommit(raw []byte, now time.Time) error {
	signed, err := splitCommit(raw)
	if err != nil {
		return err
	}
	return p.signers.Verify(signed, now)
}

// VerifyTag reports whether one of the policy's keys signed an annotated tag under the given short
// name: a signed tag does not become another version by being pushed under another name. The error
// is a *signers.RejectedError.
func (p *Policy) VerifyTag(raw []byte, name string, now time.Time) error {
	signed, says, err := splitTag(raw)
	if err != nil {
		return err
	}
	if err := p.signers.Verify(signed, now); err != nil {
		return err
	}
	if says != name {
		return &signers.RejectedError{Why: fmt.Sprintf("was signed under the name %q", says)}
	}
	return nil
}
