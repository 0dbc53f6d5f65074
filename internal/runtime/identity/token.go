// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// issuer is the issuer claim of all of Leat's own tokens.
	issuer = "leat"
	// assertionAudience is the audience of assertions, which only the distributor accepts.
	assertionAudience = "leat"

	// leeway is how far the clocks of two machines may differ.
	leeway = 30 * time.Second

	// maxTokenBytes bounds the token that is parsed for an unauthenticated caller.
	maxTokenBytes = 8 << 10
)

// claims of access and service tokens.
type claims struct {
	jwt.Claims
	Groups []string `json:"groups,omitempty"`
	UID    string   `json:"uid,omitempty"`
	// Credential is the session id of OpenID Connect.
	Credential string `json:"sid,omitempty"`
	// Workload describes the workload that the token was issued to.
	Workload map[string]string `json:"workload,omitempty"`
}

// parse parses a token, which must be signed with Ed25519 whatever its header claims. This rule and
// keys of different Go types make algorithm confusion impossible.
func parse(token string) (*jwt.JSONWebToken, error) {
	if len(token) > maxTokenBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrTokenInvalid, maxTokenBytes)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	if len(parsed.Headers) != 1 {
		return nil, fmt.Errorf("%w: want one signature, got %d", ErrTokenInvalid, len(parsed.Headers))
	}
	return parsed, nil
}

// open verifies the signature and the claims. It requires that the token is for one of the
// audiences, and that its subject is one of the kinds allowed for this type of token.
func open(token *jwt.JSONWebToken, key any, audiences []string, kinds ...Kind) (Identity, error) {
	var c claims
	if err := token.Claims(key, &c); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	if err := validate(c.Claims, issuer, audiences...); err != nil {
		return Identity{}, err
	}
	kind, name, err := ParseSubject(c.Subject)
	if err != nil {
		return Identity{}, err
	}
	if !slices.Contains(kinds, kind) {
		return Identity{}, fmt.Errorf("%w: a token of this type may not name a %s", ErrTokenInvalid, kind)
	}
	return Identity{
		Kind: kind, Name: name, UID: c.UID, Groups: c.Groups, TokenID: c.ID, Credential: c.Credential, Claims: c.Workload,
		Expires: c.Expiry.Time(),
	}, nil
}

// validate checks the standard claims. Claims that the standard makes optional are required here.
func validate(c jwt.Claims, wantIssuer string, audiences ...string) error {
	if c.Expiry == nil || c.IssuedAt == nil {
		return fmt.Errorf("%w: exp or iat is missing", ErrTokenInvalid)
	}
	expected := jwt.Expected{Issuer: wantIssuer, AnyAudience: audiences, Time: time.Now()}
	if err := c.ValidateWithLeeway(expected, leeway); err != nil {
		return fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	return nil
}

// standardClaims of a token that begins now, with a new id.
func standardClaims(issuer, subject, audience string, ttl time.Duration) jwt.Claims {
	now := time.Now()
	return jwt.Claims{
		Issuer: issuer, Subject: subject, ID: rand.Text(), Audience: jwt.Audience{audience},
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(ttl)),
	}
}

// sign returns a token with the claims. The kid names the key.
func sign(key ed25519.PrivateKey, kid string, claims any) (string, error) {
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("make signer: %w", err)
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// publicJWK describes a public key; its id is the RFC 7638 thumbprint, so that both sides can
// compute it.
func publicJWK(key ed25519.PublicKey) (jose.JSONWebKey, error) {
	jwk := jose.JSONWebKey{Key: key, Algorithm: string(jose.EdDSA), Use: "sig"}
	thumbprint, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return jose.JSONWebKey{}, fmt.Errorf("compute thumbprint: %w", err)
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return jwk, nil
}

// KeyID returns the RFC 7638 thumbprint of a public key, which is the kid of tokens that its owner
// signs.
func KeyID(key ed25519.PublicKey) (string, error) {
	if len(key) != ed25519.PublicKeySize {
		return "", fmt.Errorf("compute key id: key has %d bytes, want %d", len(key), ed25519.PublicKeySize)
	}
	jwk, err := publicJWK(key)
	return jwk.KeyID, err
}
