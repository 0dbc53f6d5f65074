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

// Verification is who has to have signed what a repository delivers. The zero Verification lets everything through.
type Verification struct {
	Mode provenance.Mode
	// PGPKeys are armored OpenPGP public keys, SSHAllowedSigners lines of an OpenSSH allowed_signers file.
	PGPKeys           string
	SSHAllowedSigners string
}

// verificationRules grows when objects are judged in another way than before, so that all of them are judged anew.
const verificationRules = 1

// Fingerprint names the policy. It is equal for equal ones, on every replica, and empty where there is none.
func (v Verification) Fingerprint() string {
	if v.Mode == provenance.ModeNone {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %q %q", verificationRules, v.Mode, v.PGPKeys, v.SSHAllowedSigners))
	return hex.EncodeToString(sum[:])
}

// Check tells whether the verification can be used. The error is a *FieldError.
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

// RejectedError tells which selector selects something that is mirrored, but that nobody signed who is allowed to.
type RejectedError struct {
	Selector Selector
	Ref      string // full name; empty for a commit that was named by its id
	Commit   string
	Why      string // a phrase that follows the commit
	// Excluded: the policy lets nothing through that is of the ref's kind.
	Excluded bool
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s leads to %s, which %s", e.Selector, e.Commit, e.Why)
}

// ExcludedBranch is why a branch is held back for good where only tags are delivered. That is no problem of anybody's.
const ExcludedBranch = "belongs to a branch, while only signed tags are delivered"

// Delivered is the commit that the ref delivers: its own, or the last one that was let through. Empty: there is none.
func (r Ref) Delivered() string {
	if r.Held != "" {
		return r.GoodCommit
	}
	return r.Commit
}

// shown is the ref as its readers see it.
func (r Ref) shown() Ref {
	if r.Held == "" || r.GoodCommit == "" {
		return r
	}
	return Ref{Name: r.Name, Object: r.GoodObject, Commit: r.GoodCommit}
}

// deliver returns the commit that a selector gets from a ref.
func (r Ref) deliver(s Selector) (string, error) {
	commit := r.Delivered()
	switch {
	case commit != "":
		return commit, nil
	case r.Held != "":
		return "", &RejectedError{Selector: s, Ref: r.Name, Commit: r.Commit, Why: r.Held, Excluded: r.Held == ExcludedBranch}
	default:
		return "", &RefError{Selector: s, NoCommit: true}
	}
}

// delivers tells whether a ref delivers the commit.
func (r Refs) Delivers(commit string) bool {
	for _, ref := range r {
		if ref.Delivered() == commit {
			return true
		}
	}
	return false
}
