// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package oidclogin_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/access/oidclogin"
	"github.com/leatdev/leat/services/distributor/internal/access/session"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const clientSecret = "the secret of the client, of 32 B"

// hostile is a provider that answers as a test wants.
type hostile struct {
	*httptest.Server
	key *rsa.PrivateKey

	// description, answer and userinfo change what would be right.
	description func(map[string]any)
	answer      func(http.ResponseWriter, *http.Request) bool // true: it has answered
	sign        func(claims map[string]any) string
	claims      map[string]any
	userinfo    map[string]any
	keysAsked   atomic.Int32
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{key: key, claims: map[string]any{}}
	h.sign = func(claims map[string]any) string { return signed(t, jose.RS256, key, "k1", claims) }
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		d := map[string]any{
			"issuer": h.URL, "authorization_endpoint": h.URL + "/auth", "token_endpoint": h.URL + "/token", "jwks_uri": h.URL + "/keys",
			"userinfo_endpoint": h.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
			"scopes_supported": []string{"openid", "offline_access"},
		}
		if h.description != nil {
			h.description(d)
		}
		write(w, d)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		h.keysAsked.Add(1)
		write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if h.answer != nil && h.answer(w, r) {
			return
		}
		now := time.Now()
		claims := map[string]any{
			"iss": h.URL, "sub": "ada", "aud": "leat", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": "the nonce",
		}
		maps.Copy(claims, h.claims)
		write(w, map[string]any{"access_token": "a", "token_type": "Bearer", "refresh_token": "r", "id_token": h.sign(claims)})
	})
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, _ *http.Request) {
		info := map[string]any{"sub": "ada", "groups": []string{"dev"}}
		maps.Copy(info, h.userinfo)
		write(w, info)
	})
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned is a token with alg none.
func unsigned(claims map[string]any) string {
	payload, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

type secrets struct{}

func (secrets) ProviderSecret(context.Context, string) (secret.Text, error) { return clientSecret, nil }

func newClient(guard dialguard.Guard) *oidclogin.Client {
	return oidclogin.New(oidclogin.Params{Secrets: secrets{}, RedirectURI: "https://hub.example/login/callback", Guard: guard})
}

func providerAt(issuer string) *catalog.IdentityProvider {
	return &catalog.IdentityProvider{
		Metadata: catalog.Metadata{Name: "corp", UID: "u", ResourceVersion: 1}, Spec: catalog.IdentityProviderSpec{Issuer: issuer, ClientID: "leat"},
	}
}

var transaction = session.Transaction{State: "s", Nonce: "the nonce", Verifier: secret.Text(strings.Repeat("v", 43))}

// TestSecHostileProviders has a provider, or an attacker in its place, give answers that must not
// sign anybody in.
func TestSecHostileProviders(t *testing.T) {
	t.Parallel()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*testing.T, *hostile){
		"alg none": func(_ *testing.T, h *hostile) { h.sign = unsigned },
		"signed with the client's secret": func(t *testing.T, h *hostile) {
			h.sign = func(c map[string]any) string { return signed(t, jose.HS256, []byte(clientSecret), "k1", c) }
		},
		"another key of the same name": func(t *testing.T, h *hostile) {
			h.sign = func(c map[string]any) string { return signed(t, jose.RS256, other, "k1", c) }
		},
		"unknown key": func(t *testing.T, h *hostile) {
			h.sign = func(c map[string]any) string { return signed(t, jose.RS256, other, "k2", c) }
		},
		"no id_token":          func(_ *testing.T, h *hostile) { h.sign = func(map[string]any) string { return "" } },
		"not a token":          func(_ *testing.T, h *hostile) { h.sign = func(map[string]any) string { return "a.b.c" } },
		"another audience":     func(_ *testing.T, h *hostile) { h.claims["aud"] = "another client" },
		"many audiences":       func(_ *testing.T, h *hostile) { h.claims["aud"] = []string{"leat", "another client"} },
		"another client's":     func(_ *testing.T, h *hostile) { h.claims["azp"] = "another client" },
		"another issuer":       func(_ *testing.T, h *hostile) { h.claims["iss"] = "https://other.example" },
		"another nonce":        func(_ *testing.T, h *hostile) { h.claims["nonce"] = "other" },
		"no nonce":             func(_ *testing.T, h *hostile) { h.claims["nonce"] = "" },
		"expired":              func(_ *testing.T, h *hostile) { h.claims["exp"] = time.Now().Add(-time.Minute).Unix() },
		"from the future":      func(_ *testing.T, h *hostile) { h.claims["iat"] = time.Now().Add(time.Minute).Unix() },
		"no subject":           func(_ *testing.T, h *hostile) { h.claims["sub"] = "" },
		"a subject too long":   func(_ *testing.T, h *hostile) { h.claims["sub"] = strings.Repeat("a", 256) },
		"another's userinfo":   func(_ *testing.T, h *hostile) { h.userinfo = map[string]any{"sub": "bob"} },
		"userinfo without end": func(_ *testing.T, h *hostile) { h.userinfo = map[string]any{"x": strings.Repeat("x", 2<<20)} },
		"another issuer's description": func(_ *testing.T, h *hostile) {
			h.description = func(d map[string]any) { d["issuer"] = "https://other.example" }
		},
		"endpoints that are scripts": func(_ *testing.T, h *hostile) {
			h.description = func(d map[string]any) { d["authorization_endpoint"] = "javascript:alert(1)" }
		},
		"a description without end": func(_ *testing.T, h *hostile) {
			h.description = func(d map[string]any) { d["x"] = strings.Repeat("x", 2<<20) }
		},
		"a redirect": func(_ *testing.T, h *hostile) {
			h.answer = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
				return true
			}
		},
		"an answer that repeats the code": func(_ *testing.T, h *hostile) {
			h.answer = func(w http.ResponseWriter, r *http.Request) bool {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(r.FormValue("code") + r.FormValue("code_verifier")))
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHostile(t)
			client := newClient(dialguard.Guard{AllowLocal: true})
			if name == "unknown key" {
				if _, err := client.Redeem(t.Context(), providerAt(h.URL), transaction, "code"); err != nil {
					t.Fatalf("got %v, want the right answer to be taken", err)
				}
			}
			spoil(t, h)
			claims, err := client.Redeem(t.Context(), providerAt(h.URL), transaction, "the code")
			if err == nil {
				t.Fatalf("got %+v, want it refused", claims)
			}
			if strings.Contains(err.Error(), "the code") || strings.Contains(err.Error(), "vvvv") {
				t.Errorf("the error repeats a secret: %v", err)
			}
			for range 5 {
				_, _ = client.Redeem(t.Context(), providerAt(h.URL), transaction, "the code")
			}
			if asked := h.keysAsked.Load(); asked > 2 {
				t.Errorf("the keys were asked for %d times within a minute", asked)
			}
		})
	}
}

// TestSecProvidersOnThisMachine names issuers at addresses of the hub's own machine and link.
func TestSecProvidersOnThisMachine(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	for _, issuer := range []string{h.URL, strings.Replace(h.URL, "127.0.0.1", "localhost", 1), "https://169.254.169.254", "https://[::1]:1"} {
		_, err := newClient(dialguard.Guard{}).AuthURL(t.Context(), providerAt(issuer), transaction)
		if !errors.Is(err, dialguard.ErrLocal) {
			t.Errorf("%s: got %v, want it not dialled", issuer, err)
		}
	}
}

// TestRenewal reads claims again, and tells refusals from silence.
func TestRenewal(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	client, provider := newClient(dialguard.Guard{AllowLocal: true}), providerAt(h.URL)
	claims, err := client.Renew(t.Context(), provider, "ada", "refresh")
	if err != nil || !claims.Complete || claims.Refresh != "r" || claims.Values["groups"] == nil {
		t.Fatalf("got %+v, %v", claims, err)
	}
	if _, err := client.Renew(t.Context(), provider, "bob", "refresh"); !errors.Is(err, session.ErrRejected) {
		t.Errorf("got %v, want another person's answer refused", err)
	}
	for code, isFinal := range map[string]bool{"invalid_grant": true, "invalid_client": false, "temporarily_unavailable": false} {
		h.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error": "` + code + `"}`))
			return true
		}
		if _, err := client.Renew(t.Context(), provider, "ada", "refresh"); err == nil || errors.Is(err, session.ErrRejected) != isFinal {
			t.Errorf("%s: got %v, want final: %t", code, err, isFinal)
		}
	}
	h.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		write(w, map[string]any{"access_token": "a", "token_type": "Bearer"})
		return true
	}
	h.description = func(d map[string]any) { delete(d, "userinfo_endpoint") }
	if claims, err := newClient(dialguard.Guard{AllowLocal: true}).Renew(t.Context(), provider, "ada", "refresh"); err != nil || claims.Complete || claims.Subject != "ada" {
		t.Errorf("got %+v, %v, want the claims of before to hold", claims, err)
	}
	h.Close()
	if _, err := client.Renew(t.Context(), provider, "ada", "refresh"); err == nil || errors.Is(err, session.ErrRejected) {
		t.Errorf("got %v, want silence to be no refusal", err)
	}
	if _, err := client.AuthURL(t.Context(), provider, transaction); err != nil {
		t.Errorf("got %v, want what was discovered to serve on", err)
	}
}

// TestAuthURL checks the parameters with which the browser is sent to the provider, and how the
// answer's issuer is compared.
func TestAuthURL(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	client, provider := newClient(dialguard.Guard{AllowLocal: true}), providerAt(h.URL)
	text, err := client.AuthURL(t.Context(), provider, transaction)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"client_id": "leat", "response_type": "code", "redirect_uri": "https://hub.example/login/callback", "state": "s", "nonce": "the nonce",
		"code_challenge_method": "S256", "scope": "email offline_access openid profile",
	} {
		if got := u.Query().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if challenge := u.Query().Get("code_challenge"); challenge == "" || strings.Contains(text, transaction.Verifier.Reveal()) {
		t.Errorf("got %s, want the challenge and not the verifier", text)
	}
	if err := errors.Join(client.CheckIssuer(t.Context(), provider, ""), client.CheckIssuer(t.Context(), provider, h.URL)); err != nil {
		t.Error(err)
	}
	if client.CheckIssuer(t.Context(), provider, "https://other.example") == nil {
		t.Error("the answer of another issuer is taken")
	}
	h.description = func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }
	if newClient(dialguard.Guard{AllowLocal: true}).CheckIssuer(t.Context(), provider, "") == nil {
		t.Error("an answer without the issuer is taken of a provider that sends it")
	}
}
