// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/ed25519"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leatdev/leat/internal/runtime/identity"
)

var tunnelService = identity.Identity{Kind: identity.KindService, Name: "tunnel"}

// hubTokenParams returns the params of an agent with key 2 of the cluster "u", for which key 1 is
// the hub's.
func hubTokenParams() identity.HubTokenParams {
	return identity.HubTokenParams{Keys: []ed25519.PublicKey{publicKey(1)}, ClusterUID: "u", AgentKey: publicKey(2)}
}

func TestHubToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := identity.NewIssuer(privateKey(1), publicKey(3))
		token, err := hub.IssueHubToken(tunnelService, "u", publicKey(2))
		if err != nil {
			t.Fatal(err)
		}
		if id, err := identity.VerifyHubToken(token, hubTokenParams()); err != nil || id == "" {
			t.Errorf("got %q, %v, want an id", id, err)
		}
		newcomer := hubTokenParams()
		newcomer.ClusterUID = ""
		if _, err := identity.VerifyHubToken(token, newcomer); err != nil {
			t.Errorf("an agent that is not enrolled: got %v, want it taken", err)
		}
		if _, err := hub.Verifier(identity.ServiceTunnel).Verify(t.Context(), token); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("as an access token: got %v, want %v", err, identity.ErrTokenInvalid)
		}
		for name, change := range map[string]func(*identity.HubTokenParams){
			"another agent":   func(p *identity.HubTokenParams) { p.AgentKey = publicKey(4) },
			"another cluster": func(p *identity.HubTokenParams) { p.ClusterUID = "v" },
			"another hub":     func(p *identity.HubTokenParams) { p.Keys = []ed25519.PublicKey{publicKey(4)} },
			"no hub":          func(p *identity.HubTokenParams) { p.Keys = nil },
		} {
			p := hubTokenParams()
			change(&p)
			if _, err := identity.VerifyHubToken(token, p); !errors.Is(err, identity.ErrTokenInvalid) {
				t.Errorf("%s: got %v, want %v", name, err, identity.ErrTokenInvalid)
			}
		}
		<-time.After(identity.HubTokenTTL + 31*time.Second)
		if _, err := identity.VerifyHubToken(token, hubTokenParams()); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("after its end: got %v, want %v", err, identity.ErrTokenInvalid)
		}
	})
}

// TestVerifyHubTokenRefuses forges tokens with the hub's own key.
func TestVerifyHubTokenRefuses(t *testing.T) {
	t.Parallel()
	now := time.Now().Unix()
	bound, err := identity.KeyID(publicKey(2))
	if err != nil {
		t.Fatal(err)
	}
	hub, err := identity.KeyID(publicKey(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]map[string]any{
		"":                {},
		"an access token": {"aud": identity.ServiceTunnel},
		"two audiences":   {"aud": []string{"cluster-uid:u", identity.ServiceTunnel}},
		"no audience":     {"aud": nil},
		"a person":        {"sub": "user:ada"},
		"another service": {"sub": "service:gitcache"},
		"unbound":         {"cnf": nil},
		"bound to no key": {"cnf": map[string]any{}},
		"long":            {"exp": now + 600},
		"endless":         {"exp": nil},
		"no id":           {"jti": nil},
		"no issuer":       {"iss": nil},
	} {
		claims := goodClaims(map[string]any{
			"sub": "service:tunnel", "aud": "cluster-uid:u", "iat": now, "exp": now + 120, "jti": "x", "cnf": map[string]any{"jkt": bound},
		})
		for key, value := range change {
			if claims[key] = value; value == nil {
				delete(claims, key)
			}
		}
		token := forge(t, jose.EdDSA, privateKey(1), hub, claims)
		_, err := identity.VerifyHubToken(token, hubTokenParams())
		if want := name != ""; want != errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestHubKeys(t *testing.T) {
	t.Parallel()
	hub := identity.NewIssuer(privateKey(1), publicKey(3))
	keys, err := identity.ParseHubKeys(hub.HubKeys())
	if err != nil || len(keys) != 2 || !keys[0].Equal(publicKey(1)) {
		t.Errorf("got %v, %v, want both keys", keys, err)
	}
	served, err := hub.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := identity.ParseKeySet(served); err != nil || len(keys) != 2 {
		t.Errorf("of the key set: got %v, %v, want both keys", keys, err)
	}
	if _, err := identity.ParseHubKeys([]string{"short"}); err == nil {
		t.Error("an invalid key was accepted")
	}
}
