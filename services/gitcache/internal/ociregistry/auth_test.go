// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
)

// tokenServer gives tokens for the password, by the distribution project's token
// specification, and for the identity token, by its OAuth2 one.
type tokenServer struct {
	*httptest.Server
	key      *ecdsa.PrivateKey
	lifetime int

	mu    sync.Mutex
	asked []string // scopes
	saw   []string // everything that could be a credential
}

const (
	password = "open sesame"
	identity = "sesame-identity"
)

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &tokenServer{key: key, lifetime: 300}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) config(t *testing.T) *registrytest.Tokens {
	t.Helper()
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Tokens{Realm: s.URL + "/token?a=b", Service: "registry", Issuer: "tests", JWKS: keys}
}

func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.Form.Get("scope"))
	s.saw = append(s.saw, r.Header.Get("Authorization")+r.Form.Get("refresh_token"))
	s.mu.Unlock()
	user, given, _ := r.BasicAuth()
	isOAuth := r.Method == http.MethodPost && r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") == identity
	if r.Form.Get("service") != "registry" || !isOAuth && (user != "leat" || given != password) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token, err := s.token(r.Form.Get("scope"))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_in": s.lifetime})
}

// token signs a token for a scope such as repository:team/web:pull.
func (s *tokenServer) token(scope string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: "one"}}, nil)
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(scope, ":", 3)
	now := time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "tests", Audience: jwt.Audience{"registry"}, Expiry: jwt.NewNumericDate(now.Add(time.Hour)),
		NotBefore: jwt.NewNumericDate(now.Add(-time.Minute)), IssuedAt: jwt.NewNumericDate(now), ID: scope,
	}).Claims(map[string]any{"access": []any{map[string]any{
		"type": parts[0], "name": parts[1], "actions": strings.Split(parts[2], ","),
	}}}).Serialize()
}

func (s *tokenServer) take() (asked, saw []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, saw = s.asked, s.saw
	s.asked, s.saw = nil, nil
	return asked, saw
}

func (s *tokenServer) host() string { return s.Listener.Addr().String() }

// guarded starts a registry that takes the server's tokens, with one chart.
func (s *tokenServer) guarded(t *testing.T) (*front, string) {
	t.Helper()
	r := registrytest.Start(t, registrytest.Config{Tokens: s.config(t)})
	token, err := s.token("repository:team/web:pull,push")
	if err != nil {
		t.Fatal(err)
	}
	r.Authorization = "Bearer " + token
	return newFront(t, r.Addr, false), r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
}

// TestSecTokenHosts sends the credential to a token server at another host only where the definition
// lists that host.
func TestSecTokenHosts(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t)
	f, digest := tokens.guarded(t)
	basic := upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: password, AllowPlainHTTP: true}
	for name, credential := range map[string]upstream.Credential{
		"basic": basic,
		"docker config": {Method: upstream.MethodDockerConfig, AllowPlainHTTP: true, DockerConfig: secret.Text(
			fmt.Sprintf(`{"auths":{%q:{"identitytoken":%q}}}`, f.Listener.Addr().String(), identity))},
	} {
		s := newSubject(t, upstream.Definition{URL: f.url("team/web"), Credential: credential})
		err := wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected)
		if !strings.Contains(err.Message, tokens.host()) || !strings.Contains(err.Message, "tokenHosts") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got %v, want to be asked about the token server", name, err)
		}
		if _, saw := tokens.take(); len(saw) != 0 {
			t.Errorf("%s: the token server got %v", name, saw)
		}

		s.def.TokenHosts = upstream.NewList([]string{tokens.host()})
		s.def.Version++
		s.fetch(t)
		s.resolve(t, tag("1.0.0"))
		if got := s.files(t, artifact.ID{Digest: digest}); len(got) != 2 {
			t.Errorf("%s: got %v", name, got)
		}
		s.fetch(t)
		asked, _ := tokens.take()
		if len(asked) != 1 || !strings.HasSuffix(asked[0], " repository:team/web:pull") {
			t.Errorf("%s: got the requests %v for tokens, want one, for pulling alone", name, asked)
		}
		f.mu.Lock()
		for _, header := range f.headers {
			if strings.Contains(fmt.Sprint(header), "sesame") || strings.Contains(header.Get("Authorization"), "Basic") {
				t.Errorf("%s: the registry got the credential itself", name)
			}
		}
		f.mu.Unlock()
		s.now = s.now.Add(time.Hour)
		s.fetch(t)
		if asked, _ := tokens.take(); len(asked) != 1 {
			t.Errorf("%s: got the requests %v once the token was old, want one", name, asked)
		}
	}
	wrong := basic
	wrong.Password = "wrong sesame"
	s := newSubject(t, upstream.Definition{URL: f.url("team/web"), Credential: wrong, TokenHosts: upstream.NewList([]string{tokens.host()})})
	if err := wantReason(t, s.try(t.Context()), reason.UpstreamAuthRejected); strings.Contains(err.Error(), "sesame") {
		t.Errorf("got %v, want no credential in it", err)
	}
	tokens.take()
	s = newSubject(t, upstream.Definition{URL: f.url("team/web")})
	wantReason(t, s.try(t.Context()), reason.UpstreamUnreachable) // an address that no person wrote
	if asked, _ := tokens.take(); len(asked) != 0 {
		t.Errorf("got %v at an address of this machine that no administrator wrote", asked)
	}
}

// TestSecRedirectsGetNoCredential stores layers elsewhere: that place sees no header of ours.
func TestSecRedirectsGetNoCredential(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{Username: "leat", Password: password})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	elsewhere := newFront(t, r.Addr, false)
	f := newFront(t, r.Addr, false)
	data := chart(t, "1.0.0").Data
	elsewhere.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write(data)
		return true
	})
	f.fail(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		http.Redirect(w, r, elsewhere.URL+r.URL.Path+"?X-Signature=sesame", http.StatusTemporaryRedirect)
		return true
	})
	s := newSubject(t, upstream.Definition{
		URL: f.url("team/web"), TokenHosts: upstream.NewList([]string{elsewhere.Listener.Addr().String()}),
		Credential: upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: password, AllowPlainHTTP: true},
	})
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	if got := s.files(t, artifact.ID{Digest: digest}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	elsewhere.mu.Lock()
	defer elsewhere.mu.Unlock()
	if len(elsewhere.headers) != 1 || elsewhere.headers[0].Get("Authorization") != "" {
		t.Errorf("got %v, want no credential", elsewhere.headers)
	}
}

// TestSecSignedAddressesAreNotLogged redirects to an address with a signature that fails there.
func TestSecSignedAddressesAreNotLogged(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	f := newFront(t, r.Addr, false)
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusForbidden, http.StatusServiceUnavailable} {
		f.fail(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Query().Has("X-Signature"):
				w.WriteHeader(status)
			case strings.Contains(r.URL.Path, "/blobs/"):
				http.Redirect(w, r, r.URL.Path+"?X-Signature="+url.QueryEscape("sesame"), http.StatusTemporaryRedirect)
			default:
				return false
			}
			return true
		})
		s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
		s.fetch(t)
		if err := s.fill(t.Context(), artifact.ID{Digest: digest}); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "sesame") {
			t.Errorf("%d: got %v, want a failure without the signature", status, err)
		}
	}
}

// TestSecChallenges answers none that would send a credential where it does not belong.
func TestSecChallenges(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		`Bearer realm="https://evil.invalid/token",service="x"`, `Bearer realm="http://evil.invalid/token"`, `Bearer realm="//x"`,
		`Bearer realm="file:///etc/passwd"`, `Bearer realm="https://u:p@h.invalid/"`, `Bearer realm="https://127.0.0.1:1/`, `Bearer`, `Bearer realm=`,
		`Digest realm="x"`, `Bearer ` + strings.Repeat("x=y,", 10_000), ``,
	} {
		f := newFront(t, "127.0.0.1:1", false)
		f.fail(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", header)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		s := newSubject(t, upstream.Definition{URL: f.url("team/web"), Credential: upstream.Credential{
			Method: upstream.MethodBasic, Username: "leat", Password: password, AllowPlainHTTP: true,
		}})
		if err := s.try(t.Context()); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%.50s: got %v, want it refused", header, err)
		}
		f.mu.Lock()
		for _, sent := range f.headers {
			if sent.Get("Authorization") != "" {
				t.Errorf("%.50s: the credential was sent", header)
			}
		}
		f.mu.Unlock()
	}
}
