// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leatdev/leat/internal/runtime/identity"
)

// lookup returns the key of the cluster demo, the only known one.
func lookup(_ context.Context, cluster string) (ed25519.PublicKey, error) {
	if cluster != "demo" {
		return nil, errNoCluster
	}
	return publicKey(1), nil
}

var errNoCluster = errors.New("no such cluster")

func TestAssertion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		assertion, err := identity.SignAssertion(privateKey(1), "demo")
		if err != nil {
			t.Fatalf("sign: %v", err)
		}
		cluster, id, err := identity.VerifyAssertion(t.Context(), assertion, lookup)
		if err != nil || cluster != "demo" || id == "" {
			t.Errorf("got %q, %q, %v, want demo and an id", cluster, id, err)
		}
		<-time.After(identity.AssertionTTL + 31*time.Second)
		if _, _, err := identity.VerifyAssertion(t.Context(), assertion, lookup); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("after its end: got %v, want %v", err, identity.ErrTokenInvalid)
		}
	})
}

func TestVerifyAssertionRefuses(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	signed := func(change map[string]any) string {
		claims := goodClaims(map[string]any{"sub": "cluster:demo", "aud": "leat", "iss": nil, "exp": now + 60, "iat": now})
		for key, value := range change {
			if claims[key] = value; value == nil {
				delete(claims, key)
			}
		}
		return forge(t, jose.EdDSA, privateKey(1), "", claims)
	}
	if _, _, err := identity.VerifyAssertion(t.Context(), signed(nil), lookup); err != nil {
		t.Fatalf("verify an unchanged assertion: %v", err)
	}
	access, _, err := identity.NewIssuer(privateKey(1)).Issue(cluster(), identity.ServiceTunnel, time.Minute)
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	for name, token := range map[string]string{
		"longer than a minute":  signed(map[string]any{"exp": now + 61}),
		"no id":                 signed(map[string]any{"jti": nil}),
		"no audience":           signed(map[string]any{"aud": nil}),
		"other audience":        signed(map[string]any{"aud": "example"}),
		"no expiry":             signed(map[string]any{"exp": nil}),
		"no issue time":         signed(map[string]any{"iat": nil}),
		"from the future":       signed(map[string]any{"iat": now + 40, "exp": now + 90}),
		"a user":                signed(map[string]any{"sub": "user:demo"}),
		"no subject":            signed(map[string]any{"sub": nil}),
		"an access token":       access,
		"another key":           forge(t, jose.EdDSA, privateKey(2), "", goodClaims(map[string]any{"sub": "cluster:demo", "aud": "leat", "iss": nil, "exp": now + 60})),
		"public key as HMAC":    forge(t, jose.HS256, []byte(publicKey(1)), "", goodClaims(map[string]any{"sub": "cluster:demo", "aud": "leat", "iss": nil, "exp": now + 60})),
		"without any signature": unsigned(t, kidOf(t, 1)),
		"not a token":           "x",
	} {
		if _, _, err := identity.VerifyAssertion(t.Context(), token, lookup); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, identity.ErrTokenInvalid)
		}
	}
}

func TestVerifyAssertionPassesOnWhatLookupSays(t *testing.T) {
	t.Parallel()
	assertion, err := identity.SignAssertion(privateKey(1), "other")
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	_, _, err = identity.VerifyAssertion(t.Context(), assertion, lookup)
	if !errors.Is(err, errNoCluster) || errors.Is(err, identity.ErrTokenInvalid) {
		t.Errorf("got %v, want %v alone", err, errNoCluster)
	}
	_, _, err = identity.VerifyAssertion(t.Context(), assertion, func(context.Context, string) (ed25519.PublicKey, error) {
		return nil, nil
	})
	if err == nil || errors.Is(err, identity.ErrTokenInvalid) {
		t.Errorf("a key of no size: got %v, want an error that does not blame the token", err)
	}
}

func TestSignAssertionRefusesAShortKey(t *testing.T) {
	t.Parallel()
	if _, err := identity.SignAssertion(privateKey(1)[1:], "demo"); err == nil {
		t.Error("got no error")
	}
}
