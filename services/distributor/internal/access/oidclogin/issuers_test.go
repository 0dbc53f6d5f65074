// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package oidclogin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/access/oidclogin"
	"github.com/leatdev/leat/services/distributor/internal/access/trust"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// keyServer is an issuer whose answer for its keys a test chooses.
type keyServer struct {
	url   string
	key   *ecdsa.PrivateKey
	asked atomic.Int32
	serve atomic.Pointer[http.HandlerFunc]
}

func startKeyServer(t *testing.T) *keyServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &keyServer{key: key}
	s.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.keySet(t, "one")) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": s.url, "jwks_uri": s.url + "/keys"})
			return
		}
		s.asked.Add(1)
		(*s.serve.Load())(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *keyServer) answer(f http.HandlerFunc) { s.serve.Store(&f) }

func (s *keyServer) keySet(t *testing.T, kid string) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: kid}}})
	if err != nil {
		t.Error(err)
	}
	return set
}

func (s *keyServer) token(t *testing.T, kid string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{"iss": s.url, "sub": "job"}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (s *keyServer) rule() *catalog.TrustRule {
	return &catalog.TrustRule{Metadata: catalog.Metadata{Name: "ci", UID: "u", Generation: 1}, Spec: catalog.TrustRuleSpec{Issuer: s.url}}
}

func newIssuers(timeout time.Duration) *oidclogin.Issuers {
	return oidclogin.NewIssuers(oidclogin.IssuersParams{Guard: dialguard.Guard{AllowLocal: true}, Timeout: timeout})
}

// TestKeysOfAnIssuer reads the keys once, again for an unknown key but not for the next one, and
// continues without the issuer.
func TestKeysOfAnIssuer(t *testing.T) {
	t.Parallel()
	s, issuers := startKeyServer(t), newIssuers(0)
	for range 3 {
		if claims, err := issuers.Verify(t.Context(), s.rule(), s.token(t, "one")); err != nil || claims.Subject != "job" {
			t.Fatalf("got %+v, %v, want the claims", claims, err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	s.answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 5 { // the keys were read less than a minute ago
		if _, err := issuers.Verify(t.Context(), s.rule(), s.token(t, "made up")); !errors.Is(err, trust.ErrToken) {
			t.Errorf("an unknown key: got %v, want %v", err, trust.ErrToken)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times for unknown keys, want not again within a minute", n)
	}
	if _, err := issuers.Verify(t.Context(), s.rule(), s.token(t, "one")); err != nil {
		t.Errorf("without the issuer: got %v, want the known key to count", err)
	}
	if _, err := newIssuers(0).Verify(t.Context(), s.rule(), s.token(t, "one")); !errors.Is(err, trust.ErrUnavailable) {
		t.Errorf("without keys: got %v, want %v", err, trust.ErrUnavailable)
	}
	inline := s.rule()
	inline.Spec.JWKS = string(s.keySet(t, "one"))
	if _, err := newIssuers(0).Verify(t.Context(), inline, s.token(t, "one")); err != nil {
		t.Errorf("by keys of the rule: got %v", err)
	}
}

// TestSecKeySetsOfIssuers has an issuer answer with too much, too slowly, with too many keys, and with
// keys that verify nothing.
func TestSecKeySetsOfIssuers(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	defer close(released)
	private, err := json.Marshal(jose.JSONWebKey{Key: []byte("shared"), KeyID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   error
		within time.Duration // zero: the default
	}{
		"10 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"keys": [], "more": "`+strings.Repeat("x", 10<<20)+`"}`)
		}, trust.ErrUnavailable, 0},
		"a trickle": {func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-released:
					return
				case <-r.Context().Done():
				case <-tick.C:
				}
			}
		}, trust.ErrUnavailable, 2 * time.Second},
		"too many keys": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"keys": [%s{}]}`, strings.Repeat("{},", 200))
		}, trust.ErrUnavailable, 0},
		"no JSON":           {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, trust.ErrUnavailable, 0},
		"an error":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, trust.ErrUnavailable, 0},
		"another place":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, trust.ErrUnavailable, 0},
		"a shared key":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"keys": [%s]}`, private) }, trust.ErrToken, 0},
		"a short RSA key":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, rsaKey(64)) }, trust.ErrToken, 0},
		"an endless modulo": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, rsaKey(500_000)) }, trust.ErrToken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startKeyServer(t)
			s.answer(tc.answer)
			if _, err := newIssuers(tc.within).Verify(t.Context(), s.rule(), s.token(t, "one")); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// rsaKey is a key set with an RSA key whose modulus has so many base64 letters.
func rsaKey(letters int) string {
	return `{"keys": [{"kty": "RSA", "kid": "one", "e": "AQAB", "n": "` + strings.Repeat("_", letters) + `"}]}`
}
