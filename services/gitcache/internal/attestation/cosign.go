// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

const (
	// payloadType is the type of the simple signing payloads that cosign signs.
	payloadType = "cosign container image signature"
	// signPredicate is the type of the statements that cosign signs for an artifact. Statements of
	// other types describe it, such as what it is made of.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	// statementType is the type of the payload in the envelope of a bundle.
	statementType = "application/vnd.in-toto+json"
	// maxSubjects bounds the subjects of a statement.
	maxSubjects = 64
	digestName  = "sha256"
)

// statementVersions are the types of statements that have subjects with digests.
var statementVersions = []string{"https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"}

// VerifyPayload returns nil if one of the policy's keys signed the payload, and the payload is a
// signature of cosign for the artifact with that digest. The error is a *signers.RejectedError.
func (p *Policy) VerifyPayload(digest string, payload, signature []byte) error {
	if !p.cosign.Verify(payload, signature) {
		return rejected("is not signed by %s", p.signer())
	}
	var claim struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if err := json.Unmarshal(payload, &claim); err != nil {
		return rejected("has a signed payload that is not JSON as cosign writes it")
	}
	switch {
	case claim.Critical.Type != payloadType:
		return rejected("has a signed payload of the type %.60q, which is not that of an artifact's signature", claim.Critical.Type)
	case claim.Critical.Image.Digest != digestName+":"+digest:
		return rejected("has a signature that was made for %.80q", claim.Critical.Image.Digest)
	}
	return nil
}

// bundle holds the relevant fields of a Sigstore bundle. Exactly one of its contents is set.
type bundle struct {
	MediaType string `json:"mediaType"`
	Material  struct {
		PublicKey *struct{} `json:"publicKey"`
	} `json:"verificationMaterial"`
	Message *struct {
		Digest struct {
			Algorithm string `json:"algorithm"`
			Digest    []byte `json:"digest"`
		} `json:"messageDigest"`
		Signature []byte `json:"signature"`
	} `json:"messageSignature"`
	Envelope *struct {
		Payload    []byte `json:"payload"`
		Type       string `json:"payloadType"`
		Signatures []struct {
			Signature []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// IsBundleType reports whether a media type belongs to a Sigstore bundle, of any version.
func IsBundleType(mediaType string) bool {
	return strings.HasPrefix(mediaType, "application/vnd.dev.sigstore.bundle")
}

// VerifyBundle returns nil if a Sigstore bundle holds a signature that one of the policy's keys made
// for the artifact with that digest: over a statement of cosign's, or over the manifest itself,
// which manifest returns. The error is a *signers.RejectedError, or manifest's. Transparency logs
// are not consulted: a listed key needs none to vouch for it.
func (p *Policy) VerifyBundle(digest string, data []byte, manifest func() ([]byte, error)) error {
	var b bundle
	switch err := json.Unmarshal(data, &b); {
	case err != nil || !IsBundleType(b.MediaType) || (b.Message == nil) == (b.Envelope == nil):
		return rejected("has a Sigstore bundle that cannot be read")
	case b.Material.PublicKey == nil:
		return rejected("is signed by a certificate, while signatures by %s count", p.signer())
	case b.Message != nil:
		signed, err := manifest()
		if err != nil {
			return err
		}
		if !p.cosign.Verify(signed, b.Message.Signature) {
			return rejected("is not signed by %s", p.signer())
		}
		return nil
	case b.Envelope.Type != statementType:
		return rejected("has a Sigstore bundle with a payload of the type %.60q, which is not a statement", b.Envelope.Type)
	case len(b.Envelope.Signatures) != 1:
		return rejected("has a Sigstore bundle with %d signatures; there has to be one", len(b.Envelope.Signatures))
	}
	if !p.cosign.Verify(preAuthentication(b.Envelope.Type, b.Envelope.Payload), b.Envelope.Signatures[0].Signature) {
		return rejected("is not signed by %s", p.signer())
	}
	return verifyStatement(digest, b.Envelope.Payload)
}

// preAuthentication returns the signed bytes of an envelope (DSSE, protocol version 1).
func preAuthentication(payloadType string, payload []byte) []byte {
	signed := "DSSEv1 " + strconv.Itoa(len(payloadType)) + " " + payloadType + " " + strconv.Itoa(len(payload)) + " "
	return append([]byte(signed), payload...)
}

// verifyStatement returns nil if a statement, which was found to be signed, signs the artifact with
// that digest.
func verifyStatement(digest string, payload []byte) error {
	var s struct {
		Type      string `json:"_type"`
		Predicate string `json:"predicateType"`
		Subjects  []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(payload, &s); err != nil || !slices.Contains(statementVersions, s.Type) {
		return rejected("has a signed statement that cannot be read")
	}
	switch {
	case s.Predicate != signPredicate:
		return rejected("has a signed statement of the type %.80q, which is not an artifact's signature", s.Predicate)
	case len(s.Subjects) > maxSubjects:
		return rejected("has a signed statement about more than %d artifacts", maxSubjects)
	}
	for _, subject := range s.Subjects {
		if subject.Digest[digestName] == digest {
			return nil
		}
	}
	return rejected("has a signature that was made for another artifact")
}
