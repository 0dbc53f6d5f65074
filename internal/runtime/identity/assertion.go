// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

// AssertionTTL is the longest lifetime of an assertion.
const AssertionTTL = time.Minute

// SignAssertion makes the token with which an agent proves that it holds its cluster's key. It is
// valid once, for [AssertionTTL].
func SignAssertion(key ed25519.PrivateKey, cluster string) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("sign assertion: key has %d bytes, want %d", len(key), ed25519.PrivateKeySize)
	}
	kid, err := KeyID(publicOf(key))
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	subject := Identity{Kind: KindCluster, Name: cluster}.Subject()
	token, err := sign(key, kid, standardClaims("", subject, assertionAudience, AssertionTTL))
	if err != nil {
		return "", fmt.Errorf("sign assertion: %w", err)
	}
	return token, nil
}

// VerifyAssertion checks an assertion against the key that lookup returns for the cluster it names,
// and returns that cluster and the assertion's id. Errors match [ErrTokenInvalid], except that an
// error of lookup is in the chain as it is. The caller must refuse an id that it has seen within
// the last two minutes: this function keeps no memory.
func VerifyAssertion(
	ctx context.Context, token string, lookup func(ctx context.Context, cluster string) (ed25519.PublicKey, error),
) (cluster, id string, err error) {
	parsed, err := parse(token)
	if err != nil {
		return "", "", err
	}
	cluster, err = claimedCluster(parsed)
	if err != nil {
		return "", "", err
	}
	key, err := lookup(ctx, cluster)
	if err != nil {
		return "", "", fmt.Errorf("look up key of cluster %q: %w", cluster, err)
	}
	if len(key) != ed25519.PublicKeySize {
		return "", "", fmt.Errorf("look up key of cluster %q: key has %d bytes, want %d", cluster, len(key), ed25519.PublicKeySize)
	}
	var c jwt.Claims
	if err := parsed.Claims(key, &c); err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	if err := validateAssertion(c); err != nil {
		return "", "", err
	}
	return cluster, c.ID, nil
}

// claimedCluster reads which cluster's key to verify with, before the token can be trusted.
func claimedCluster(token *jwt.JSONWebToken) (string, error) {
	var c jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&c); err != nil {
		return "", fmt.Errorf("%w: %w", ErrTokenInvalid, err)
	}
	kind, name, err := ParseSubject(c.Subject)
	if err != nil {
		return "", err
	}
	if kind != KindCluster {
		return "", fmt.Errorf("%w: an assertion may not name a %s", ErrTokenInvalid, kind)
	}
	return name, nil
}

// validateAssertion checks what an assertion requires beyond other tokens: no issuer besides its
// own key, a short lifetime, and an id by which a second use is detected.
func validateAssertion(c jwt.Claims) error {
	if c.Issuer != "" {
		return fmt.Errorf("%w: an assertion has no issuer", ErrTokenInvalid)
	}
	if err := validate(c, "", assertionAudience); err != nil {
		return err
	}
	if lifetime := c.Expiry.Time().Sub(c.IssuedAt.Time()); lifetime > AssertionTTL {
		return fmt.Errorf("%w: assertion lives %s, want at most %s", ErrTokenInvalid, lifetime, AssertionTTL)
	}
	if c.ID == "" {
		return fmt.Errorf("%w: jti is missing", ErrTokenInvalid)
	}
	return nil
}
