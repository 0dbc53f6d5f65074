// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package provenance judges commits and annotated tags by who signed them.
package provenance

import (
	"fmt"
	"time"

	"github.com/leatdev/leat/internal/signers"
)

// Mode says what has to be signed before it is delivered.
type Mode string

// The modes.
const (
	// ModeNone accepts everything.
	ModeNone Mode = ""
	// ModeCommit wants the commit signed that a ref leads to, whether the ref is a branch or a tag.
	ModeCommit Mode = "commit"
	// ModeTag wants annotated tags that are signed. Branches deliver nothing.
	ModeTag Mode = "tag"
	// ModeTagAndCommit is ModeCommit, and tags have to be annotated and signed too.
	ModeTagAndCommit Mode = "tag_and_commit"
)

// WantsCommit reports whether the commit that a ref leads to has to be signed.
func (m Mode) WantsCommit() bool { return m == ModeCommit || m == ModeTagAndCommit }

// WantsTag reports whether tags have to be annotated and signed.
func (m Mode) WantsTag() bool { return m == ModeTag || m == ModeTagAndCommit }

// Policy says what has to be signed, and by whom. It is immutable and may be used concurrently.
type Policy struct {
	Mode    Mode
	signers *signers.Set
}

// New makes a policy of the two lists that signers.Parse reads; its errors are those of that.
func New(mode Mode, pgpKeys, sshAllowedSigners string) (*Policy, error) {
	switch mode {
	case ModeCommit, ModeTag, ModeTagAndCommit:
	case ModeNone:
		return &Policy{}, nil
	default:
		return nil, fmt.Errorf("unknown mode of verification %q", mode)
	}
	set, err := signers.Parse(pgpKeys, sshAllowedSigners)
	if err != nil {
		return nil, err
	}
	return &Policy{Mode: mode, signers: set}, nil
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
