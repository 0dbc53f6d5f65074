// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package githubapp_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/leatdev/leat/services/gitcache/internal/githubapp"
)

// api is a stub of GitHub's.
type api struct {
	*httptest.Server
	key    *rsa.PrivateKey
	asked  atomic.Int64
	life   time.Duration
	answer func(w http.ResponseWriter, r *http.Request) bool // true: answered
}

func newAPI(t *testing.T) *api {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{key: key, life: time.Hour}
	a.Server = httptest.NewServer(a.handler(t))
	t.Cleanup(a.Close)
	return a
}

func (a *api) handler(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n := a.asked.Add(1)
		if a.answer != nil && a.answer(w, r) {
			return
		}
		assertion, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		parsed, err := jwt.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.RS256})
		var claims jwt.Claims
		if err == nil {
			err = parsed.Claims(&a.key.PublicKey, &claims)
		}
		if err != nil || claims.Issuer != "7" || r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/42/access_tokens" {
			t.Errorf("got %s %s, issuer %q and %v, want a signed request for installation 42 of app 7", r.Method, r.URL.Path, claims.Issuer, err)
		}
		if life := claims.Expiry.Time().Sub(claims.IssuedAt.Time()); life > 10*time.Minute || claims.IssuedAt.Time().After(time.Now()) {
			t.Errorf("got a life of %s from %s, want 10 min at most, from the past", life, claims.IssuedAt.Time())
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": fmt.Sprintf("token-%d", n), "expires_at": time.Now().Add(a.life)})
	}
}

func (a *api) app() githubapp.App {
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(a.key)})
	return githubapp.App{ID: 7, Installation: 42, PrivateKey: string(text), APIURL: a.URL + "/api/v3/"}
}

func TestTokenIsCachedAndShared(t *testing.T) {
	t.Parallel()
	a, tokens := newAPI(t), githubapp.NewTokens()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := tokens.Token(t.Context(), a.app(), a.Client()); err != nil || got != "token-1" {
				t.Errorf("got %q, %v, want the one token", got, err)
			}
		})
	}
	all.Wait()
	if a.asked.Load() != 1 {
		t.Errorf("got %d exchanges, want 1", a.asked.Load())
	}
	tokens.Forget(a.app(), "older")
	if got, err := tokens.Token(t.Context(), a.app(), a.Client()); err != nil || got != "token-1" {
		t.Errorf("got %q, %v, want what is cached: another one was forgotten", got, err)
	}
	tokens.Forget(a.app(), "token-1")
	if got, err := tokens.Token(t.Context(), a.app(), a.Client()); err != nil || got != "token-2" {
		t.Errorf("got %q, %v, want a new one", got, err)
	}
	other := a.app()
	other.Via = "proxy"
	if got, err := tokens.Token(t.Context(), other, a.Client()); err != nil || got != "token-3" {
		t.Errorf("got %q, %v, want one of its own", got, err)
	}
}

func TestTokenIsRenewedBeforeItsEnd(t *testing.T) {
	t.Parallel()
	a, tokens := newAPI(t), githubapp.NewTokens()
	a.life = 4 * time.Minute
	for n := range 2 {
		if got, err := tokens.Token(t.Context(), a.app(), a.Client()); err != nil || got != fmt.Sprintf("token-%d", n+1) {
			t.Errorf("got %q, %v, want a new token each time: the last one ends soon", got, err)
		}
	}
}

func TestExchangeOutlivesItsFirstCaller(t *testing.T) {
	t.Parallel()
	a, tokens := newAPI(t), githubapp.NewTokens()
	begun, goOn := make(chan struct{}), make(chan struct{})
	a.answer = func(http.ResponseWriter, *http.Request) bool { close(begun); <-goOn; return false }
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { _, err := tokens.Token(ctx, a.app(), a.Client()); first <- err }()
	<-begun
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	close(goOn)
	if got, err := tokens.Token(t.Context(), a.app(), a.Client()); err != nil || got != "token-1" {
		t.Errorf("got %q, %v, want the token of the exchange that was begun", got, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	a, tokens := newAPI(t), githubapp.NewTokens()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("got %s at another host, want no redirect followed", r.URL)
	}))
	t.Cleanup(elsewhere.Close)
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		a.answer = func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true }
		_, err := tokens.Token(t.Context(), a.app(), a.Client())
		if _, ok := errors.AsType[*githubapp.RefusedError](err); !ok {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	a.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"token": canary`))
		return true
	}
	if _, err := tokens.Token(t.Context(), a.app(), a.Client()); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want an error without a word of the answer", err)
	}
	broken := a.app()
	broken.PrivateKey = "no key"
	if _, err := tokens.Token(t.Context(), broken, a.Client()); err == nil {
		t.Error("got a token without a key")
	}
}
