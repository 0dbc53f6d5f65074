// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func rsaPEM(t *testing.T) (*rsa.PrivateKey, secret.Text) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return key, secret.Text(pem.EncodeToMemory(block))
}

// clientPair is a self-signed client certificate.
func clientPair(t *testing.T) upstream.Credential {
	t.Helper()
	key, text := rsaPEM(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return upstream.Credential{ClientCertPEM: certificatePEM(c), ClientKeyPEM: text}
}

// front passes every request on to another server, after look has seen it.
func front(t *testing.T, to string, look func(w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	passOn := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	return httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !look(w, r) {
			passOn.ServeHTTP(w, r)
		}
	}))
}

func pathOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	pair := clientPair(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(pair.ClientCertPEM))
	server := front(t, strings.TrimSuffix(repo.URL(), pathOf(t, repo.URL())), func(http.ResponseWriter, *http.Request) bool { return false })
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	p := newProxy(t, "https")

	f := newFixture(t, server.URL+pathOf(t, repo.URL()))
	f.def.CAPEM = certificatePEM(server.Certificate()) + p.pem
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)
	f.def.Credential = clientPair(t) // of another user
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)
	f.def.Credential = pair
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	f.def.ProxyURL = secret.Text(p.url)
	f.fetch(t)
	if p.let.Load() == 0 || p.certs.Load() != 0 {
		t.Errorf("got %d tunnels and %d client certificates at the proxy, want some and none", p.let.Load(), p.certs.Load())
	}

	other := clientPair(t)
	for field, change := range map[string]func(*mirror.Definition){
		"credential.client_certificate":                 func(d *mirror.Definition) { d.URL = "http://git.example/x" },
		"credential.client_certificate.certificate_pem": func(d *mirror.Definition) { d.Credential.ClientCertPEM = "" },
		"credential.client_certificate.private_key_pem": func(d *mirror.Definition) { d.Credential.ClientKeyPEM = other.ClientKeyPEM },
	} {
		bad := f.def
		change(&bad)
		if e, ok := errors.AsType[*mirror.FieldError](f.Check(bad)); !ok || e.Field != field {
			t.Errorf("got %v, want %s refused", e, field)
		}
	}
}

// appStub gives out installation tokens, token-1, token-2 and so on.
type appStub struct {
	*httptest.Server
	asked  atomic.Int64
	status atomic.Int64 // other than 201
}

func newAppStub(t *testing.T) *appStub {
	t.Helper()
	a := &appStub{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := a.asked.Add(1)
		if status := a.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": fmt.Sprint("token-", n), "expires_at": time.Now().Add(time.Hour)})
	}))
	t.Cleanup(a.Close)
	return a
}

func TestGitHubApp(t *testing.T) {
	t.Parallel()
	app := newAppStub(t)
	server := gittest.New(t, gittest.WithBasicAuth("x-access-token", "token-1"))
	repo := server.Repo(t, "demo")
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	_, key := rsaPEM(t)
	f := newFixture(t, repo.URL())
	f.def.Credential = upstream.Credential{
		Method: upstream.MethodGitHubApp, AppID: 7, InstallationID: 42, PrivateKey: key, APIURL: app.URL, AllowPlainHTTP: true,
	}
	if err := f.Check(f.def); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	if app.asked.Load() != 1 {
		t.Errorf("got %d tokens for two fetches, want one", app.asked.Load())
	}
	server.SetBasicAuth("x-access-token", "token-2") // the first was revoked before its end
	second := repo.Commit(t, "main", map[string]string{"a": "2"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": second})
	server.SetBasicAuth("x-access-token", "no token")
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)
	if app.asked.Load() != 3 {
		t.Errorf("got %d tokens, want one more retry only", app.asked.Load())
	}
	app.status.Store(http.StatusUnauthorized)
	if err := wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected); !strings.Contains(err.Message, "app id") {
		t.Errorf("got %q, want it to name the app", err.Message)
	}
	app.status.Store(http.StatusBadGateway)
	wantReason(t, f.try(t.Context()), reason.UpstreamUnreachable)

	f.def.Credential.APIURL = "http://api.example" // allowed, as long as plain HTTP is
	f.def.Credential.AllowPlainHTTP = false
	f.def.URL = "https://git.example/x"
	if e, ok := errors.AsType[*mirror.FieldError](f.Check(f.def)); !ok || e.Field != "credential.github_app.api_url" {
		t.Errorf("got %v, want the plain API refused", e)
	}
}

func TestSSHKeyWithPassphrase(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, "")
	f.def = sshDefinition(server, repo)
	f.def.Credential.PrivateKey = secret.Text(gittest.LockSSHKey(t, server.SSHPrivateKey(), "sesame"))
	for _, wrong := range []secret.Text{"", "open"} {
		f.def.Credential.Passphrase = wrong
		if e, ok := errors.AsType[*mirror.FieldError](f.Check(f.def)); !ok || e.Field != "credential.ssh.private_key" {
			t.Errorf("got %v, want the key refused", e)
		}
	}
	f.def.Credential.Passphrase = "sesame"
	if err := f.Check(f.def); err != nil {
		t.Fatal(err)
	}
	f.fetch(t)
}

func hostKeys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	ec, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err3 := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ed25519": ed, "ecdsa": ec, "rsa": rs}
}

func TestHostKeys(t *testing.T) {
	t.Parallel()
	strangers := hostKeys(t)
	for name, key := range hostKeys(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gittest.New(t, gittest.WithSSHHostKey(key))
			repo := server.Repo(t, "demo")
			repo.Commit(t, "main", map[string]string{"a": "1"})
			f := newFixture(t, "")
			f.def = sshDefinition(server, repo)
			f.fetch(t)
			host, _, _ := strings.Cut(server.SSHKnownHosts(), " ")
			for other, replaced := range strangers { // of the same type, and of others
				public, err := ssh.NewPublicKey(replaced.Public())
				if err != nil {
					t.Fatal(err)
				}
				f.def.Credential.KnownHosts = host + " " + string(ssh.MarshalAuthorizedKey(public))
				e := wantReason(t, f.try(t.Context()), reason.UpstreamHostKeyRejected)
				if !strings.Contains(e.Message, "somebody stands in between") {
					t.Errorf("%s for %s: got %q, want it to speak of a changed key", name, other, e.Message)
				}
			}
			f.def.Credential.KnownHosts = "elsewhere.example " + string(ssh.MarshalAuthorizedKey(mustPublic(t, key)))
			if e := wantReason(t, f.try(t.Context()), reason.UpstreamHostKeyRejected); !strings.Contains(e.Message, "no line") {
				t.Errorf("got %q, want it to speak of a missing line", e.Message)
			}
		})
	}
}

func mustPublic(t *testing.T, key crypto.Signer) ssh.PublicKey {
	t.Helper()
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// prefixes give one credential to all.
type prefixes mirror.SharedCredential

func (p prefixes) For(string) (mirror.SharedCredential, bool) {
	return mirror.SharedCredential(p), true
}

// Mirrors implements uploadpack.Credentials.
func (prefixes) Mirrors(string) []string { return nil }

func sharing(c upstream.Credential) prefixes {
	return prefixes{Credential: c, Prefix: "http://127.0.0.1"}
}

// TestSharedCredentialIsNotForImpostors checks that a person who may define repositories cannot
// have it sent to a server of theirs.
func TestSharedCredentialIsNotForImpostors(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithTLS(), gittest.WithBasicAuth("leat", "shared"))
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	shared := sharing(basic("leat", "shared"))
	f.credentials, f.def.CAPEM = shared, string(server.CertificatePEM())
	f.reopen(t)
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)
	shared.CAPEM = string(server.CertificatePEM())
	f.credentials = shared
	f.reopen(t)
	f.fetch(t)

	var sent text
	proxy := httptest.NewServer(http.HandlerFunc(sent.records))
	t.Cleanup(proxy.Close)
	f.credentials = sharing(basic("leat", "shared"))
	f.reopen(t)
	f.def = mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: "http://git.invalid/x", ProxyURL: secret.Text(proxy.URL)}}
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)
	if strings.Contains(sent.String(), "Authorization") || !strings.Contains(sent.String(), "git.invalid") {
		t.Errorf("got %q at the proxy, want a request without the credential", sent.String())
	}
}

func TestCredentialOfAPrefix(t *testing.T) {
	t.Parallel()
	server := gittest.New(t, gittest.WithBasicAuth("leat", "shared"))
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	f := newFixture(t, repo.URL())
	f.credentials = sharing(basic("leat", "shared"))
	f.reopen(t)
	f.fetch(t)
	f.def.Credential = basic("leat", "own") // beats it, right or wrong
	wantReason(t, f.try(t.Context()), reason.UpstreamAuthRejected)

	f.def.Credential = upstream.Credential{}
	f.credentials = sharing(upstream.Credential{Method: upstream.MethodBearer, Token: "canary"})
	f.reopen(t)
	err := f.Check(f.def)
	if e, ok := errors.AsType[*mirror.FieldError](err); !ok || e.Field != "url" || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want the shared credential refused over plain http", err)
	}
	wantReason(t, f.try(t.Context()), reason.UpstreamProtocol)
}
