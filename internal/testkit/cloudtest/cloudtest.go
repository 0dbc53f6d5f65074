// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudtest stands in for the services of AWS, Google Cloud and Azure that trade the token of a
// pod for a login at a registry, and for their key management services and secret managers. It is one HTTP server on
// loopback, and as strict as the clouds: a request that they would refuse is refused, and the test
// fails. It checks the signatures of AWS by code of its own.
package cloudtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

// The state of the clouds.
const (
	// PodToken is the one token of a pod that is accepted.
	PodToken = "eyJhbGciOiJSUzI1NiJ9.canary-pod-token.c2ln"
	Region   = "eu-central-1"
	Role     = "arn:aws:iam::123456789012:role/leat"
	Provider = "projects/12345/locations/global/workloadIdentityPools/clusters/providers/hub"
	Account  = "leat@project.iam.gserviceaccount.com"
	Client   = "11111111-2222-3333-4444-555555555555"
	Tenant   = "66666666-7777-8888-9999-000000000000"

	// Passwords of registries, with the users AWS, oauth2accesstoken and 00000000-…. That of Azure is
	// made by RefreshToken.
	ECRPassword    = "canary-ecr-password"
	GoogleToken    = "canary-google-token"
	AccountToken   = "canary-account-token"
	entraToken     = "canary-entra-token"
	vaultToken     = "canary-vault-token"
	federatedToken = "canary-federated-token"
)

// Clouds are running services. They end with the test.
type Clouds struct {
	*httptest.Server
	// Now is the services' clock. Nil: the real one. It is set before the first request.
	Now func() time.Time

	tb testing.TB
	// right answers without faults.
	right http.Handler

	mu       sync.Mutex
	requests []string
	fault    func(w http.ResponseWriter, r *http.Request) (handled bool)
	lifetime time.Duration
	keys     keys
	kms      kms
	secrets  secrets
}

// Start starts the services.
func Start(tb testing.TB) *Clouds {
	tb.Helper()
	c := &Clouds{
		tb: tb, lifetime: time.Hour,
		keys: keys{id: "ASIACANARY", secret: "canary-secret-access-key", token: "canary-session-token=="},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /aws/sts/{$}", c.serveSTS)
	mux.HandleFunc("POST /aws/ecr/{$}", c.serveECR)
	mux.HandleFunc("GET /aws/pod", c.servePodIdentity)
	mux.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/{account}/token", c.serveMetadata)
	mux.HandleFunc("POST /google/sts/v1/token", c.serveGoogleSTS)
	mux.HandleFunc("POST /google/iam/v1/projects/-/serviceAccounts/{action}", c.serveIAM)
	mux.HandleFunc("POST /azure/{tenant}/oauth2/v2.0/token", c.serveEntra)
	mux.HandleFunc("POST /aws/kms/{$}", c.serveAWSKMS)
	mux.HandleFunc("POST /google/kms/v1/projects/{project}/locations/{location}/keyRings/{ring}/cryptoKeys/{action}", c.serveGoogleKMS)
	mux.HandleFunc("POST /aws/secrets/{$}", c.serveAWSSecrets)
	mux.HandleFunc("GET /google/secrets/v1/projects/{project}/secrets/{secret}/versions/{action}", c.serveGoogleSecrets)
	mux.HandleFunc("GET /secrets/{secret}", c.serveAzureSecrets)
	c.right = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/keys/") { // a mux would redirect from a path with an empty version
			c.serveAzureKeys(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	c.Server = httptest.NewServer(c.watched(c.right))
	tb.Cleanup(c.Close)
	return c
}

// TokenFile writes the pod's token into a file of the test.
func TokenFile(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "token")
	if err := os.WriteFile(path, []byte(PodToken+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Environment holds the variables that the clouds set in a pod that has the token of a file.
func (c *Clouds) Environment(token string) cloud.Config {
	return cloud.Config{
		AWSRole: Role, AWSTokenFile: token, STSURL: c.URL + "/aws/sts",
		GCPTokenFile: token, GCPMetadataHost: c.Listener.Addr().String(), GCPSTSURL: c.URL + "/google/sts", GCPIAMURL: c.URL + "/google/iam/",
		AzureClient: Client, AzureTenant: Tenant, AzureTokenFile: token, AzureAuthorityURL: c.URL + "/azure/",
	}
}

// Fail has requests answered by fault where that returns true. Nil ends that.
func (c *Clouds) Fail(fault func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

// ServeRight answers a request as it is answered without a fault: for a fault that changes answers.
func (c *Clouds) ServeRight(w http.ResponseWriter, r *http.Request) { c.right.ServeHTTP(w, r) }

// Live sets how long credentials last from now on.
func (c *Clouds) Live(lifetime time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lifetime = lifetime
}

// Take returns method and path of each request since the last call.
func (c *Clouds) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.requests
	c.requests = nil
	return taken
}

func (c *Clouds) watched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r.Method+" "+r.URL.Path)
		fault := c.fault
		c.mu.Unlock()
		if fault == nil || !fault(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

func (c *Clouds) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Clouds) ends() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(c.lifetime)
}

// refuse fails the test: the request is not one that the cloud would take.
func (c *Clouds) refuse(w http.ResponseWriter, r *http.Request, format string, args ...any) {
	c.tb.Errorf("%s %s: %s", r.Method, r.URL.Path, fmt.Sprintf(format, args...))
	w.WriteHeader(http.StatusBadRequest)
}

// form reads a form that has exactly the wanted fields. An empty wanted value means that any will do.
func (c *Clouds) form(w http.ResponseWriter, r *http.Request, want url.Values) bool {
	if got := r.Header.Get("Content-Type"); got != "application/x-www-form-urlencoded" {
		c.refuse(w, r, "content type %q", got)
		return false
	}
	if err := r.ParseForm(); err != nil || r.URL.RawQuery != "" {
		c.refuse(w, r, "not a form without a query: %v", err)
		return false
	}
	for name := range r.PostForm {
		if !want.Has(name) {
			c.refuse(w, r, "field %s is not wanted", name)
			return false
		}
	}
	for name := range want {
		if got := r.PostForm.Get(name); got == "" || want.Get(name) != "" && got != want.Get(name) {
			c.refuse(w, r, "got %s %q, want %q", name, got, want.Get(name))
			return false
		}
	}
	return true
}

func (c *Clouds) serveSTS(w http.ResponseWriter, r *http.Request) {
	if !c.form(w, r, url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {Role}, "RoleSessionName": {""}, "WebIdentityToken": {PodToken},
	}) {
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>`+
		`<SubjectFromWebIdentityToken>system:serviceaccount:leat:gitcache</SubjectFromWebIdentityToken><Credentials>`+
		`<SessionToken>%s</SessionToken><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration><AccessKeyId>%s</AccessKeyId>`+
		`</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
		c.keys.token, c.keys.secret, c.ends().UTC().Format(time.RFC3339), c.keys.id)
}

func (c *Clouds) serveECR(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != "{}" {
		c.refuse(w, r, "got the body %q", body)
		return
	}
	if got := r.Header.Get("X-Amz-Target"); got != "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken" {
		c.refuse(w, r, "got the target %q", got)
		return
	}
	if err := c.keys.verify(r, body, Region, "ecr", c.now()); err != nil {
		c.refuse(w, r, "%v", err)
		return
	}
	pair := base64.StdEncoding.EncodeToString([]byte("AWS:" + ECRPassword))
	answer(w, map[string]any{"authorizationData": []any{map[string]any{
		"authorizationToken": pair, "expiresAt": float64(c.ends().UnixMilli()) / 1000, "proxyEndpoint": "https://registry.invalid",
	}}})
}

func (c *Clouds) servePodIdentity(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != PodToken {
		c.refuse(w, r, "got the authorization %q", got)
		return
	}
	answer(w, map[string]any{
		"AccessKeyId": c.keys.id, "SecretAccessKey": c.keys.secret, "Token": c.keys.token, "Expiration": c.ends().UTC().Format(time.RFC3339),
	})
}

func (c *Clouds) serveMetadata(w http.ResponseWriter, r *http.Request) {
	token := map[string]string{"default": GoogleToken, Account: AccountToken}[r.PathValue("account")]
	if r.Header.Get("Metadata-Flavor") != "Google" || token == "" {
		c.refuse(w, r, "got the flavor %q and the account %q", r.Header.Get("Metadata-Flavor"), r.PathValue("account"))
		return
	}
	w.Header().Set("Metadata-Flavor", "Google")
	answer(w, map[string]any{"access_token": token, "expires_in": c.seconds(), "token_type": "Bearer"})
}

func (c *Clouds) serveGoogleSTS(w http.ResponseWriter, r *http.Request) {
	if !c.form(w, r, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {"//iam.googleapis.com/" + Provider},
		"scope":                {"https://www.googleapis.com/auth/cloud-platform"},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token_type":   {"urn:ietf:params:oauth:token-type:jwt"}, "subject_token": {PodToken},
	}) {
		return
	}
	answer(w, map[string]any{"access_token": federatedToken, "expires_in": c.seconds(), "token_type": "Bearer"})
}

func (c *Clouds) serveIAM(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Scope    []string `json:"scope"`
		Lifetime string   `json:"lifetime"`
	}
	err := json.NewDecoder(r.Body).Decode(&wanted)
	if err != nil || len(wanted.Scope) != 1 || r.Header.Get("Authorization") != "Bearer "+federatedToken ||
		r.PathValue("action") != Account+":generateAccessToken" {
		c.refuse(w, r, "got %v, %+v, authorization %q", err, wanted, r.Header.Get("Authorization"))
		return
	}
	answer(w, map[string]any{"accessToken": AccountToken, "expireTime": c.ends().UTC().Format(time.RFC3339Nano)})
}

func (c *Clouds) serveEntra(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("tenant") != Tenant {
		c.refuse(w, r, "unknown tenant")
		return
	}
	tokens := map[string]string{"https://containerregistry.azure.net/.default": entraToken, "https://vault.azure.net/.default": vaultToken}
	if !c.form(w, r, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {Client}, "scope": {""},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {PodToken},
	}) {
		return
	}
	token := tokens[r.PostForm.Get("scope")]
	if token == "" {
		c.refuse(w, r, "unknown scope %q", r.PostForm.Get("scope"))
		return
	}
	answer(w, map[string]any{"access_token": token, "expires_in": c.seconds(), "token_type": "Bearer"})
}

// ServeExchange serves /oauth2/exchange of a registry of Azure at the given host.
func (c *Clouds) ServeExchange(w http.ResponseWriter, r *http.Request, host string) {
	c.mu.Lock()
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
	fault := c.fault
	c.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if !c.form(w, r, url.Values{"grant_type": {"access_token"}, "service": {host}, "tenant": {Tenant}, "access_token": {entraToken}}) {
		return
	}
	answer(w, map[string]any{"refresh_token": RefreshToken(c.ends())})
}

// RefreshToken returns the token that ServeExchange gives, of which the end is a part.
func RefreshToken(ends time.Time) string {
	claims := fmt.Sprintf(`{"exp":%d}`, ends.Unix())
	return "canary." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c"
}

func (c *Clouds) seconds() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.lifetime / time.Second)
}

func answer(w http.ResponseWriter, content any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(content)
}

// IsSecret reports whether a text holds something that the clouds know as a secret.
func IsSecret(text string) bool {
	return strings.Contains(text, "canary") || strings.Contains(text, PodToken)
}
