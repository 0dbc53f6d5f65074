// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/runtime/identity"
)

const sharedSecret = "0123456789abcdef0123456789abcdef"

// forge signs claims like an attacker who holds the key but does not follow our rules.
func forge(t *testing.T, algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader("kid", kid)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatalf("make signer: %v", err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return token
}

func kidOf(t *testing.T, seed byte) string {
	t.Helper()
	kid, err := identity.KeyID(publicKey(seed))
	if err != nil {
		t.Fatalf("key id: %v", err)
	}
	return kid
}

// goodClaims returns the claims of a valid access token. change overwrites them, and nil removes
// one.
func goodClaims(change map[string]any) map[string]any {
	now := time.Now().Unix()
	claims := map[string]any{"iss": "leat", "aud": identity.ServiceTunnel, "sub": "user:ada", "iat": now, "exp": now + 3600, "jti": "1"}
	for key, value := range change {
		if value == nil {
			delete(claims, key)
		} else {
			claims[key] = value
		}
	}
	return claims
}

func TestIssueAndVerify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := identity.NewIssuer(privateKey(1))
		for _, want := range []identity.Identity{user(), cluster()} {
			token, expires, err := issuer.Issue(want, identity.ServiceTunnel, time.Hour)
			if err != nil {
				t.Fatalf("issue: %v", err)
			}
			got, err := issuer.Verifier(identity.ServiceTunnel).Verify(t.Context(), token)
			if err != nil {
				t.Fatalf("verify: %v", err)
			}
			if got.TokenID == "" {
				t.Error("got no token id")
			}
			want.TokenID, want.Expires = got.TokenID, expires
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
			if life := time.Until(expires); life != time.Hour {
				t.Errorf("got a life of %s, want an hour", life)
			}
		}
	})
}

func TestIssueRefuses(t *testing.T) {
	t.Parallel()
	issuer := identity.NewIssuer(privateKey(1))
	tests := map[string]struct {
		issuer *identity.Issuer
		id     identity.Identity
		ttl    time.Duration
	}{
		"a service":     {issuer, identity.Identity{Kind: identity.KindService, Name: "gitcache"}, time.Hour},
		"nobody":        {issuer, identity.Identity{}, time.Hour},
		"no name":       {issuer, identity.Identity{Kind: identity.KindUser}, time.Hour},
		"no life":       {issuer, user(), 0},
		"short key":     {identity.NewIssuer(privateKey(1)[1:]), user(), time.Hour},
		"short retired": {identity.NewIssuer(privateKey(1), publicKey(2)[1:]), user(), time.Hour},
	}
	for name, tt := range tests {
		if token, _, err := tt.issuer.Issue(tt.id, identity.ServiceTunnel, tt.ttl); err == nil || token != "" {
			t.Errorf("%s: got %q, %v, want an error", name, token, err)
		}
	}
	broken := identity.NewIssuer(nil)
	if _, err := broken.JWKS(); err == nil {
		t.Error("key set of a broken issuer: got no error")
	}
	if _, err := broken.Verifier(identity.ServiceTunnel).Verify(t.Context(), "x"); err == nil {
		t.Error("verify by a broken issuer: got no error")
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	issuer, kid := identity.NewIssuer(privateKey(1)), kidOf(t, 1)
	signed := func(change map[string]any) string {
		return forge(t, jose.EdDSA, privateKey(1), kid, goodClaims(change))
	}
	if _, err := issuer.Verifier(identity.ServiceTunnel).Verify(t.Context(), signed(nil)); err != nil {
		t.Fatalf("verify an unchanged token: %v", err)
	}
	now := time.Now().Unix()
	tests := map[string]string{
		"expired":               signed(map[string]any{"exp": now - 31}),
		"no expiry":             signed(map[string]any{"exp": nil}),
		"no issue time":         signed(map[string]any{"iat": nil}),
		"issued in the future":  signed(map[string]any{"iat": now + 40}),
		"not valid yet":         signed(map[string]any{"nbf": now + 40}),
		"other issuer":          signed(map[string]any{"iss": "example"}),
		"no issuer":             signed(map[string]any{"iss": nil}),
		"other audience":        signed(map[string]any{"aud": "example"}),
		"no audience":           signed(map[string]any{"aud": nil}),
		"service subject":       signed(map[string]any{"sub": "service:gitcache"}),
		"unknown kind":          signed(map[string]any{"sub": "robot:x"}),
		"no subject":            signed(map[string]any{"sub": nil}),
		"unknown key":           forge(t, jose.EdDSA, privateKey(2), kidOf(t, 2), goodClaims(nil)),
		"stolen key id":         forge(t, jose.EdDSA, privateKey(2), kid, goodClaims(nil)),
		"no key id":             forge(t, jose.EdDSA, privateKey(1), "", goodClaims(nil)),
		"empty":                 "",
		"not a token":           "leat_abc",
		"too long":              strings.Repeat("a", 9<<10),
		"groups of wrong type":  signed(map[string]any{"groups": "admin"}),
		"cut signature":         signed(nil)[:len(signed(nil))-4],
		"public key as HMAC":    forge(t, jose.HS256, []byte(publicKey(1)), kid, goodClaims(nil)),
		"without any signature": unsigned(t, kid),
	}
	for name, token := range tests {
		if id, err := issuer.Verifier(identity.ServiceTunnel).Verify(t.Context(), token); !errors.Is(err, identity.ErrTokenInvalid) || !id.IsZero() {
			t.Errorf("%s: got %v, %v, want %v", name, id, err, identity.ErrTokenInvalid)
		}
	}
}

// unsigned makes a token of algorithm "none", which no library signs.
func unsigned(t *testing.T, kid string) string {
	t.Helper()
	good := strings.Split(forge(t, jose.EdDSA, privateKey(1), kid, goodClaims(nil)), ".")
	return "eyJhbGciOiJub25lIn0." + good[1] + "."
}

func TestClocksMayDifferByHalfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		issuer := identity.NewIssuer(privateKey(1))
		token, expires, err := issuer.Issue(user(), identity.ServiceTunnel, time.Minute)
		if err != nil {
			t.Fatalf("issue: %v", err)
		}
		<-time.After(time.Until(expires) + 30*time.Second)
		if _, err := issuer.Verifier(identity.ServiceTunnel).Verify(t.Context(), token); err != nil {
			t.Errorf("30 s after the end: got %v, want it accepted", err)
		}
		<-time.After(time.Second)
		if _, err := issuer.Verifier(identity.ServiceTunnel).Verify(t.Context(), token); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("31 s after the end: got %v, want %v", err, identity.ErrTokenInvalid)
		}
	})
}

func TestRetiredKeyStillVerifies(t *testing.T) {
	t.Parallel()
	token, _, err := identity.NewIssuer(privateKey(1)).Issue(user(), identity.ServiceTunnel, time.Hour)
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	rotated := identity.NewIssuer(privateKey(2), publicKey(1))
	if _, err := rotated.Verifier(identity.ServiceTunnel).Verify(t.Context(), token); err != nil {
		t.Errorf("after rotation: got %v, want it accepted", err)
	}
	if _, err := identity.NewIssuer(privateKey(2)).Verifier(identity.ServiceTunnel).Verify(t.Context(), token); !errors.Is(err, identity.ErrTokenInvalid) {
		t.Errorf("after the key was dropped: got %v, want %v", err, identity.ErrTokenInvalid)
	}
}

func TestJWKSHoldsPublicKeysByThumbprint(t *testing.T) {
	t.Parallel()
	content, err := identity.NewIssuer(privateKey(1), publicKey(2)).JWKS()
	if err != nil {
		t.Fatalf("JWKS: %v", err)
	}
	var document struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		t.Fatalf("parse %s: %v", content, err)
	}
	if len(document.Keys) != 2 {
		t.Fatalf("got %d keys, want 2", len(document.Keys))
	}
	for i, key := range document.Keys {
		if key["d"] != "" {
			t.Errorf("key %d: the private half is published", i)
		}
		if want := kidOf(t, byte(i+1)); key["kid"] != want || key["kty"] != "OKP" || key["crv"] != "Ed25519" || key["use"] != "sig" {
			t.Errorf("key %d: got %v, want kid %s of an Ed25519 signing key", i, key, want)
		}
	}
}

// TestKeyID uses the key and the thumbprint of RFC 8037, appendix A.3.
func TestKeyID(t *testing.T) {
	t.Parallel()
	var jwk jose.JSONWebKey
	if err := json.Unmarshal([]byte(`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`), &jwk); err != nil {
		t.Fatalf("parse key: %v", err)
	}
	public, _ := jwk.Key.(ed25519.PublicKey)
	if got, err := identity.KeyID(public); err != nil || got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("got %q, %v, want the thumbprint of the RFC", got, err)
	}
	if _, err := identity.KeyID(public[1:]); err == nil {
		t.Error("short key: got no error")
	}
}

func TestServiceTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key := serviceKey(t, sharedSecret, "gitcache")
		own, others := key.For("distributor"), key.For("tunnel/a")
		verifier := serviceKeys(t, key).Verifier([]string{"tunnel", "gitcache"}, "x", "distributor")
		first, err := own.Token(t.Context())
		if err != nil {
			t.Fatalf("token: %v", err)
		}
		got, err := verifier.Verify(t.Context(), first)
		if err != nil || got.Subject() != "service:gitcache" || time.Until(got.Expires) != 5*time.Minute {
			t.Errorf("verify: got %v, %v, want service:gitcache for 5 min", got, err)
		}
		if other, _ := others.Token(t.Context()); other == first {
			t.Error("for another audience: got the same token")
		}
		<-time.After(3 * time.Minute)
		if again, _ := own.Token(t.Context()); again != first {
			t.Error("after 3 min: got another token, want the same")
		}
		<-time.After(time.Minute)
		if fresh, _ := own.Token(t.Context()); fresh == first {
			t.Error("a minute before its end: got the same token, want a new one")
		}
		<-time.After(2 * time.Minute)
		if _, err := verifier.Verify(t.Context(), first); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("after its end: got %v, want %v", err, identity.ErrTokenInvalid)
		}
	})
}

// TestSecServiceTokensAreBound requires that only the intended receiver accepts a service's token,
// and that a service's key cannot sign for another service's name.
func TestSecServiceTokensAreBound(t *testing.T) {
	t.Parallel()
	gitcache, tunnel := serviceKey(t, sharedSecret, "gitcache"), serviceKey(t, strings.ToUpper(sharedSecret), "tunnel")
	same := serviceKey(t, sharedSecret, "tunnel") // with gitcache's secret
	keys := serviceKeys(t, gitcache, tunnel)
	verifier := keys.Verifier([]string{"tunnel"}, "tunnel/a")
	token := func(source identity.TokenSource) string {
		t.Helper()
		text, err := source.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	access, _, err := identity.NewIssuer(privateKey(1)).Issue(user(), "tunnel/a", time.Hour)
	if err != nil {
		t.Fatalf("issue: %v", err)
	}
	if _, err := verifier.Verify(t.Context(), token(tunnel.For("tunnel/a"))); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for name, text := range map[string]string{
		"for another replica":               token(tunnel.For("tunnel/b")),
		"for the service":                   token(tunnel.For("tunnel")),
		"for nobody":                        token(tunnel.For("")),
		"of another service":                token(gitcache.For("tunnel/a")),
		"of the name with another's secret": token(same.For("tunnel/a")),
		"an access token":                   access,
	} {
		if _, err := verifier.Verify(t.Context(), text); !errors.Is(err, identity.ErrTokenInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, identity.ErrTokenInvalid)
		}
	}
	for name, texts := range map[string][]string{
		"no name": {"=" + strings.Repeat("A", 43)}, "short": {"tunnel=AAAA"}, "no base64": {"tunnel=!"}, "no key": {"tunnel"},
	} {
		if _, err := identity.ParseServiceKeys(texts); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := keys.Check(gitcache); err != nil {
		t.Errorf("own key: %v", err)
	}
	if err := keys.Check(same); err == nil {
		t.Error("a key that is not listed: got no error")
	}
}

func TestServiceKeysRefuse(t *testing.T) {
	t.Parallel()
	if _, err := identity.NewServiceKey([]byte(sharedSecret)[1:], "gitcache"); err == nil {
		t.Error("short secret: got no error")
	}
	for _, name := range []string{"", "Git", "a:b", "1st"} {
		if _, err := identity.NewServiceKey([]byte(sharedSecret), name); err == nil {
			t.Errorf("service %q: got no error", name)
		}
	}
}

// TestSecServiceKeysInPEM requires that a secret in PEM is the service's key itself, so that other
// programs can compute the public half, and that nothing else that looks like PEM is a secret.
func TestSecServiceKeysInPEM(t *testing.T) {
	t.Parallel()
	inPEM := func(key any) string {
		t.Helper()
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	private := privateKey(1)
	whole := inPEM(private)
	for name, secret := range map[string]string{"as a file": whole, "trimmed": strings.TrimSpace(whole)} {
		key := serviceKey(t, secret, "gitcache")
		want := "gitcache=" + base64.RawURLEncoding.EncodeToString(publicKey(1))
		if key.Public() != want {
			t.Errorf("%s: got %s, want the key in the file, %s", name, key.Public(), want)
		}
		token, err := key.For("distributor").Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := serviceKeys(t, key).Verifier([]string{"gitcache"}, "distributor").Verify(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Split(whole, "\n")[1]
	for name, secret := range map[string]string{
		"another algorithm": inPEM(other), "cut off": whole[:len(whole)-30], "two keys": whole + whole,
		"damaged": strings.Replace(whole, body, strings.Repeat("A", len(body)), 1),
	} {
		_, err := identity.NewServiceKey([]byte(secret), "gitcache")
		if err == nil || strings.Contains(err.Error(), body) {
			t.Errorf("%s: got %v, want an error without the key", name, err)
		}
	}
}

func serviceKey(t *testing.T, secret, service string) *identity.ServiceKey {
	t.Helper()
	key, err := identity.NewServiceKey([]byte(secret), service)
	if err != nil {
		t.Fatalf("make service key: %v", err)
	}
	return key
}

func serviceKeys(t *testing.T, of ...*identity.ServiceKey) *identity.ServiceKeys {
	t.Helper()
	var texts []string
	for _, key := range of {
		texts = append(texts, key.Public())
	}
	keys, err := identity.ParseServiceKeys(texts)
	if err != nil {
		t.Fatalf("parse service keys: %v", err)
	}
	return keys
}
