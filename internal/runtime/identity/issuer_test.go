// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
)

func signingKey(fill byte, signs, ends time.Time) identity.SigningKey {
	return identity.SigningKey{
		Private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{fill}, ed25519.SeedSize)), SignsAt: signs, EndsAt: ends,
	}
}

func keyID(t *testing.T, key identity.SigningKey) string {
	t.Helper()
	id, err := identity.KeyID(ed25519.PublicKey(key.Private[ed25519.SeedSize:]))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestIssuerChangesOverByTheClock has two keys whose times overlap, as all replicas have them.
func TestIssuerChangesOverByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lead, overlap = 15 * time.Minute, 2 * time.Hour
		start := time.Now()
		first := signingKey(1, start, start.Add(lead+overlap))
		second := signingKey(2, start.Add(lead), time.Time{})
		issuer := identity.NewIssuer(first.Private)
		if err := issuer.Use([]identity.SigningKey{second, first}); err != nil {
			t.Fatal(err)
		}
		issue := func() string {
			t.Helper()
			token, _, err := issuer.Issue(identity.Identity{Kind: identity.KindUser, Name: "ada"}, "tunnel", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		published := func(want int) {
			t.Helper()
			set, err := issuer.JWKS()
			if err != nil {
				t.Fatal(err)
			}
			if keys, err := identity.ParseKeySet(set); err != nil || len(keys) != want || len(issuer.HubKeys()) != want {
				t.Errorf("got %d keys and %d for agents (%v), want %d", len(keys), len(issuer.HubKeys()), err, want)
			}
		}
		verify := func(token string, good bool) {
			t.Helper()
			_, err := issuer.Verifier("tunnel").Verify(t.Context(), token)
			if good != (err == nil) || err != nil && !errors.Is(err, identity.ErrTokenInvalid) {
				t.Errorf("got %v, want good %t", err, good)
			}
		}

		published(2)
		if got := issuer.SigningKeyID(); got != keyID(t, first) {
			t.Errorf("got key %s before the second one begins, want the first", got)
		}
		<-time.After(lead - time.Second)
		last := issue()
		<-time.After(time.Second)
		if got := issuer.SigningKeyID(); got != keyID(t, second) {
			t.Errorf("got key %s, want the second", got)
		}
		verify(last, true)
		verify(issue(), true)
		// An agent that was not reached since knows the first key alone.
		hubToken, err := issuer.IssueHubToken(tunnelService, "u", publicKey(9))
		if err != nil {
			t.Fatal(err)
		}
		agent := identity.HubTokenParams{Keys: []ed25519.PublicKey{ed25519.PublicKey(first.Private[ed25519.SeedSize:])}, ClusterUID: "u", AgentKey: publicKey(9)}
		if _, err := identity.VerifyHubToken(hubToken, agent); err != nil {
			t.Errorf("an agent with the first key alone: %v", err)
		}
		<-time.After(time.Hour - 2*time.Second)
		verify(last, true)
		published(2)
		<-time.After(overlap - time.Hour + 2*time.Second)
		published(1)
		verify(last, false)
		verify(issue(), true)
	})
}

func TestIssuerRefusesKeys(t *testing.T) {
	t.Parallel()
	good := signingKey(1, time.Now(), time.Time{})
	issuer := identity.NewIssuer(good.Private)
	for name, keys := range map[string][]identity.SigningKey{
		"none":  nil,
		"short": {good, {Private: good.Private[1:]}},
	} {
		if err := issuer.Use(keys); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if got := issuer.SigningKeyID(); got != keyID(t, good) {
		t.Errorf("got %s, want that refused keys change nothing", got)
	}
}
