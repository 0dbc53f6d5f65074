// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package attestation judges charts and OCI artifacts by who signed them, and decides what the refs
// of their repositories deliver.
//
// Its promises:
//
//   - A signature counts only for the digest that it names: the digest of the manifest (cosign), or of
//     the archive, with the chart's name and version (provenance files).
//   - Nothing of what signatures hold is used before a key of the policy was found to have made them.
//   - A signature for another purpose does not count here: the type of a payload has to be the type of
//     an artifact's signature.
//   - An artifact is asked about once. A good answer counts as long as a ref leads to the artifact; a
//     bad one is asked for again, ever more seldom, because a signature may arrive later.
//
// A [Policy] holds the keys of a definition. A [Judge] decides over refs by a [Ledger], which an adapter
// keeps with its mirror; adapters fetch what a Policy verifies. The package holds values and functions.
// It reads no disk and no network.
package attestation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/signers"
)

// rulesVersion grows when signatures are verified in another way than before, so that all are asked
// for again.
const rulesVersion = 1

// Fingerprint identifies the verification of artifacts, with the same text on every replica. It is
// empty if no signature is required.
func Fingerprint(v upstream.Verification) string {
	if v.Mode == upstream.ModeNone {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "artifacts %d %s %q %q", rulesVersion, v.Mode, v.CosignKeys, v.ProvenanceKeys))
	return hex.EncodeToString(sum[:])
}

// Policy holds the keys whose signatures of artifacts count. It is immutable and may be used
// concurrently.
type Policy struct {
	fingerprint string
	cosign      *signers.PublicKeys // nil: signatures of cosign do not count
	provenance  *signers.Set        // nil: provenance files do not count
}

// New returns the policy of a verification: one that requires nothing of the zero Verification. The
// error is a *signers.KeyError, or about the mode.
func New(v upstream.Verification) (*Policy, error) {
	p := &Policy{fingerprint: Fingerprint(v)}
	switch {
	case v.Mode == upstream.ModeNone:
		return p, nil
	case v.Mode != upstream.ModeArtifact:
		return nil, fmt.Errorf("mode of verification %q is not for artifacts", v.Mode)
	case v.CosignKeys == "" && v.ProvenanceKeys == "":
		return nil, fmt.Errorf("verification of artifacts: %w", signers.ErrNoKeys)
	}
	var err error
	if v.CosignKeys != "" {
		if p.cosign, err = signers.ParsePublicKeys(v.CosignKeys); err != nil {
			return nil, err
		}
	}
	if v.ProvenanceKeys != "" {
		if p.provenance, err = signers.ParseProvenance(v.ProvenanceKeys); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Fingerprint identifies the policy, as the function does.
func (p *Policy) Fingerprint() string { return p.fingerprint }

// IsRequired reports whether the policy demands any signature.
func (p *Policy) IsRequired() bool { return p.fingerprint != "" }

// TakesCosign reports whether signatures of cosign count.
func (p *Policy) TakesCosign() bool { return p.cosign != nil }

// TakesProvenance reports whether provenance files count.
func (p *Policy) TakesProvenance() bool { return p.provenance != nil }

// maxNamed bounds the keys that a message names.
const maxNamed = 3

// signer names the keys of cosign for a message: "the key 0123456789abcdef", for example.
func (p *Policy) signer() string {
	ids := p.cosign.IDs()
	if len(ids) == 1 {
		return "the key " + ids[0]
	}
	named := strings.Join(ids[:min(len(ids), maxNamed)], ", ")
	if more := len(ids) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return "one of the keys " + named
}

func rejected(format string, args ...any) error {
	return &signers.RejectedError{Why: fmt.Sprintf(format, args...)}
}

// Missing returns why an artifact is not delivered of which some signatures were checked, none of
// them good, as a phrase that follows its digest. last is why the last one does not count; nil: it
// is not known.
func (p *Policy) Missing(looked int, last error) string {
	var wanted []string
	if p.cosign != nil {
		wanted = append(wanted, "cosign signature by "+p.signer())
	}
	if p.provenance != nil {
		wanted = append(wanted, "provenance file by a key of provenance_keys")
	}
	why := "has no " + strings.Join(wanted, " and no ")
	switch {
	case last != nil && looked > 1:
		return fmt.Sprintf("%s among %d signatures; the last of them: it %v", why, looked, last)
	case last != nil:
		return fmt.Sprintf("%s: it %v", why, last)
	default:
		return why
	}
}
