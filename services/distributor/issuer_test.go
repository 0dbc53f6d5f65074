// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
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

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// ciAudience is the audience of the tokens of jobs.
const ciAudience = "https://leat.example.com"

// ciSystem signs tokens for jobs as a CI system does, and serves the description and the keys of an
// issuer.
type ciSystem struct {
	url  string
	key  *rsa.PrivateKey
	kid  string
	down atomic.Bool
}

func startCI(t *testing.T) *ciSystem {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ci := &ciSystem{key: key, kid: rand.Text()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": ci.url, "jwks_uri": ci.url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(ci.keySet(t)) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ci.down.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ci.url = server.URL
	return ci
}

func (ci *ciSystem) keySet(t *testing.T) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: ci.key.Public(), KeyID: ci.kid, Algorithm: "RS256", Use: "sig"}}})
	if err != nil {
		t.Error(err)
	}
	return set
}

// claims are the claims of a job of the repository, as GitHub words them. A nil value removes a
// claim.
func (ci *ciSystem) claims(repository string, more map[string]any) map[string]any {
	now := time.Now()
	all := map[string]any{
		"iss": ci.url, "aud": ciAudience, "sub": "repo:" + repository + ":ref:refs/heads/main", "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"repository": repository, "repository_owner": strings.Split(repository, "/")[0], "ref": "refs/heads/main", "run_id": "9876543210", "run_number": "42", "actor": "ada",
	}
	maps.Copy(all, more)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// job returns a token for a job.
func (ci *ciSystem) job(t *testing.T, repository string, more map[string]any) string {
	t.Helper()
	return signed(t, jose.SigningKey{Algorithm: jose.RS256, Key: ci.key}, ci.kid, ci.claims(repository, more))
}

func signed(t *testing.T, key jose.SigningKey, kid string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// requiring is a rule that requires one value of a claim.
func requiring(issuer, claim, value string) *fleetv1.TrustRuleSpec {
	return &fleetv1.TrustRuleSpec{
		Issuer: issuer, Audience: ciAudience, Require: []*fleetv1.ClaimRequirement{{Claim: claim, Values: []string{value}}}, User: "{repository}",
	}
}

// exchanged is the answer to an exchange.
type exchanged struct {
	Status      int    `json:"-"`
	AccessToken string `json:"access_token"`
	IssuedType  string `json:"issued_token_type"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// exchange presents a token at the hub. Further parameters come as pairs.
func (h *hub) exchange(t *testing.T, token string, more ...string) exchanged {
	t.Helper()
	form := url.Values{
		"grant_type":         {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token_type": {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {token},
	}
	for i := 0; i < len(more); i += 2 {
		form[more[i]] = []string{more[i+1]}
	}
	return h.post(t, "application/x-www-form-urlencoded", form.Encode())
}

func (h *hub) post(t *testing.T, kind, body string) exchanged {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/oauth/token", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got := exchanged{Status: res.StatusCode}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Cache-Control") != "no-store" {
		t.Error("the answer may be cached")
	}
	return got
}

// obtain exchanges a token that has to be accepted.
func (h *hub) obtain(t *testing.T, token string, more ...string) string {
	t.Helper()
	got := h.exchange(t, token, more...)
	if got.Status != http.StatusOK || got.AccessToken == "" || got.TokenType != "Bearer" || got.IssuedType != "urn:ietf:params:oauth:token-type:access_token" {
		t.Fatalf("got %+v, want an access token", got)
	}
	return got.AccessToken
}
