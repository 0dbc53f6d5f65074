// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func service(change func(*catalog.Service)) *catalog.Service {
	s := &catalog.Service{
		Metadata: catalog.Metadata{Name: "app@one"},
		Spec:     catalog.ServiceSpec{Cluster: "one", Sources: []catalog.Source{{Repository: "demo", Path: "apps/web"}}},
	}
	change(s)
	return s
}

func repository(change func(*catalog.RepositorySpec)) *catalog.Repository {
	r := &catalog.Repository{Metadata: catalog.Metadata{Name: "demo"}}
	r.Spec.URL = "https://git.example/demo.git"
	change(&r.Spec)
	return r
}

func source(change func(*catalog.Source)) *catalog.Service {
	return service(func(s *catalog.Service) { change(&s.Spec.Sources[0]) })
}

func ref(kind catalog.RefKind, value string) *catalog.Service {
	return source(func(s *catalog.Source) { s.Ref = catalog.Ref{Kind: kind, Value: value} })
}

func url(text string) *catalog.Repository {
	return repository(func(r *catalog.RepositorySpec) { r.URL = text })
}

func policy(p syncpolicy.Policy) *catalog.Service {
	return service(func(s *catalog.Service) { s.Spec.Options = &syncpolicy.Options{Policy: p} })
}

func credential(address string, c upstream.Credential) *catalog.Repository {
	return repository(func(r *catalog.RepositorySpec) { r.URL, r.Credential = address, c })
}

func webhookSecret(text secret.Text) *catalog.Repository {
	return repository(func(r *catalog.RepositorySpec) { r.WebhookSecret = text })
}

const signer = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9OF5kXFNqjZeDCAjI6cYwt1SGC8aZDXHUYxqOXFcCX"

func verification(mode upstream.Mode, pgp, ssh string) *catalog.Repository {
	return repository(func(r *catalog.RepositorySpec) {
		r.Verification = upstream.Verification{Mode: mode, PGPKeys: pgp, SSHAllowedSigners: ssh}
	})
}

func proxy(text secret.Text) *catalog.Repository {
	return repository(func(r *catalog.RepositorySpec) { r.ProxyURL = text })
}

func with(c upstream.Credential, change func(*upstream.Credential)) upstream.Credential {
	change(&c)
	return c
}

// keyPair returns a self-signed certificate and its RSA key, in PEM form.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
}

func dialled(endpoint string) *catalog.Cluster {
	return &catalog.Cluster{Metadata: catalog.Metadata{Name: "a"}, Spec: catalog.ClusterSpec{AgentEndpoint: endpoint}}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	certificate, key := keyPair(t)
	app := upstream.Credential{Method: upstream.MethodGitHubApp, AppID: 1, InstallationID: 2, PrivateKey: secret.Text(key)}
	pair := upstream.Credential{ClientCertPEM: certificate, ClientKeyPEM: secret.Text(key)}
	long := strings.Repeat("a", 64)
	for _, test := range []struct {
		object catalog.Object
		field  string // empty: valid
	}{
		{&catalog.Cluster{}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a-1"}}, ""},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: long}}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "-a"}}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a.b"}}, ""}, // of the project a
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "default.b"}}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a.b.c"}}, "metadata.name"},
		{&catalog.User{Metadata: catalog.Metadata{Name: "a.b"}}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a\n"}}, "metadata.name"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a", ResourceVersion: -1}}, "metadata.resource_version"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a", Labels: map[string]string{"x.io/y": "", "z": "A_b.c"}}}, ""},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a", Labels: map[string]string{"/y": ""}}}, "metadata.labels[/y]"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a", Labels: map[string]string{"y": "a b"}}}, "metadata.labels[y]"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a", Annotations: map[string]string{"y": strings.Repeat("x", 300<<10)}}}, "metadata.annotations"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a"}, Spec: catalog.ClusterSpec{Description: strings.Repeat("x", 2000)}}, "spec.description"},
		{&catalog.Cluster{Metadata: catalog.Metadata{Name: "a"}, Spec: catalog.ClusterSpec{Settings: syncpolicy.AgentSettings{Workers: -1}}}, "spec.agent.workers"},
		{dialled("agent.example.com:8443"), ""},
		{dialled("10.0.0.7:1"), ""},
		{dialled("[2001:db8::1]:65535"), ""},
		{dialled("127.0.0.1:8443"), ""}, // as far as the form goes
		{dialled("agent.example.com"), "spec.agent_endpoint"},
		{dialled("agent.example.com:0"), "spec.agent_endpoint"},
		{dialled("agent.example.com:https"), "spec.agent_endpoint"},
		{dialled("https://agent.example.com:8443"), "spec.agent_endpoint"},
		{dialled("ada@agent.example.com:8443"), "spec.agent_endpoint"},
		{dialled("agent.example.com/x:8443"), "spec.agent_endpoint"},
		{dialled(":8443"), "spec.agent_endpoint"},
		{service(func(*catalog.Service) {}), ""},
		{policy(syncpolicy.Policy{Drift: syncpolicy.DriftOff}), ""},
		{policy(syncpolicy.Policy{Drift: "x"}), "spec.policy.drift"},
		{policy(syncpolicy.Policy{DependsOn: []syncpolicy.Dependency{{Service: "app"}}}), "spec.policy.depends_on[0].service"},
		{service(func(s *catalog.Service) { s.Spec.Cluster = "" }), "spec.cluster"},
		{service(func(s *catalog.Service) { s.Spec.Options = &syncpolicy.Options{Namespace: "Up"} }), "spec.namespace"},
		{service(func(s *catalog.Service) { s.Spec.Options = &syncpolicy.Options{HealthTimeout: -time.Second} }), "spec.sync.health_timeout"},
		{service(func(s *catalog.Service) { s.Spec.Options = &syncpolicy.Options{PruneConfirmation: "yes"} }), "spec.sync.prune_confirmation"},
		{service(func(s *catalog.Service) { s.Spec.Options = &syncpolicy.Options{Renderer: "helm"} }), "spec.renderer"},
		{service(func(s *catalog.Service) { s.Spec.Sources = nil }), "spec.sources"},
		{service(func(s *catalog.Service) { s.Spec.Sources = make([]catalog.Source, 17) }), "spec.sources"},
		{source(func(s *catalog.Source) { s.Repository = "" }), "spec.sources[0].repository"},
		{source(func(s *catalog.Source) { s.Path = "/abs" }), "spec.sources[0].path"},
		{source(func(s *catalog.Source) { s.Path = "a/../../b" }), "spec.sources[0].path"},
		{source(func(s *catalog.Source) { s.Path = "a\\b" }), "spec.sources[0].path"},
		{source(func(s *catalog.Source) { s.Root = "apps" }), ""},
		{source(func(s *catalog.Source) { s.Root = "." }), ""},
		{source(func(s *catalog.Source) { s.Root = "apps/we" }), "spec.sources[0].root"},
		{source(func(s *catalog.Source) { s.Root = "apps/web/deeper" }), "spec.sources[0].root"},
		{ref(catalog.RefBranch, "feature/x"), ""},
		{ref(catalog.RefBranch, ""), "spec.sources[0].ref.branch"},
		{ref(catalog.RefBranch, "a..b"), "spec.sources[0].ref.branch"},
		{ref(catalog.RefBranch, "-x"), "spec.sources[0].ref.branch"},
		{ref(catalog.RefTag, "a b"), "spec.sources[0].ref.tag"},
		{ref(catalog.RefTag, "x.lock"), "spec.sources[0].ref.tag"},
		{ref(catalog.RefName, "refs/heads/main"), ""},
		{ref(catalog.RefName, "main"), "spec.sources[0].ref.name"},
		{ref(catalog.RefCommit, strings.Repeat("0a", 20)), ""},
		{ref(catalog.RefCommit, "0a1b2c3"), ""},
		{ref(catalog.RefCommit, "0a1b2c"), "spec.sources[0].ref.commit"},
		{ref(catalog.RefCommit, "0A1B2C3"), "spec.sources[0].ref.commit"},
		{ref(catalog.RefSemver, "~1.4"), ""},
		{ref(catalog.RefSemver, ">=2 <3"), ""},
		{ref(catalog.RefSemver, "1.x || >=3.0.0-0"), ""},
		{ref(catalog.RefSemver, ""), "spec.sources[0].ref.semver"},
		{ref(catalog.RefSemver, "latest"), "spec.sources[0].ref.semver"},
		{ref(catalog.RefSemver, strings.Repeat("1.x || ", 40)+"2.x"), "spec.sources[0].ref.semver"},
		{url("http://host/x"), ""},
		{url("ssh://git@host:22/x"), ""},
		{url("git@host:x/y.git"), ""},
		{url(""), "spec.url"},
		{url("host:x"), "spec.url"},
		{url("file:///etc"), "spec.url"},
		{url("ext::sh -c x"), "spec.url"},
		{url("-oProxyCommand=x@host:y"), "spec.url"},
		{url("https://token@host/x"), "spec.url"},
		{url("ssh://git:pw@host/x"), "spec.url"},
		{url("https:///x"), "spec.url"},
		{url("https://host/x?a=b"), "spec.url"},
		{url("https://host/%zz"), "spec.url"},
		{repository(func(r *catalog.RepositorySpec) { r.Type = upstream.TypeHelm }), ""},
		{repository(func(r *catalog.RepositorySpec) { r.Type = "99" }), "spec.type"},
		{repository(func(r *catalog.RepositorySpec) { r.PollInterval = 5 * time.Second }), ""},
		{repository(func(r *catalog.RepositorySpec) { r.PollInterval = time.Second }), "spec.poll_interval"},
		{repository(func(r *catalog.RepositorySpec) { r.CAPEM = "no pem" }), "spec.ca_pem"},
		{webhookSecret("sixteen bytes at"), ""},
		{webhookSecret(""), ""},
		{webhookSecret("fifteen bytes a"), "spec.webhook_secret"},
		{webhookSecret(secret.Text(strings.Repeat("x", 1025))), "spec.webhook_secret"},
		{credential("https://h/x", upstream.Credential{Method: upstream.MethodBasic, Password: "s"}), ""},
		{credential("https://h/x", upstream.Credential{Method: upstream.MethodBasic}), "spec.credential.basic.password"},
		{credential("https://h/x", upstream.Credential{Method: upstream.MethodBearer}), "spec.credential.bearer.token"},
		{credential("http://h/x", upstream.Credential{Method: upstream.MethodBearer, Token: "s"}), "spec.credential.allow_plain_http"},
		{credential("http://h/x", upstream.Credential{Method: upstream.MethodBearer, Token: "s", AllowPlainHTTP: true}), ""},
		{credential("git@h:x", upstream.Credential{Method: upstream.MethodBasic, Password: "s"}), "spec.credential.basic"},
		{credential("https://h/x", upstream.Credential{Method: upstream.MethodSSH, PrivateKey: "s", KnownHosts: "k"}), "spec.credential.ssh"},
		{credential("git@h:x", upstream.Credential{Method: upstream.MethodSSH, PrivateKey: "s"}), "spec.credential.ssh.known_hosts"},
		{credential("git@h:x", upstream.Credential{Method: upstream.MethodSSH, PrivateKey: "s", KnownHosts: "k"}), ""},
		{credential("https://h/x", upstream.Credential{Password: "ignored"}), ""},
		{credential("https://h/x", app), ""},
		{credential("https://h/x", with(app, func(c *upstream.Credential) { c.AppID = 0 })), "spec.credential.github_app.app_id"},
		{credential("https://h/x", with(app, func(c *upstream.Credential) { c.InstallationID = -1 })), "spec.credential.github_app.installation_id"},
		{credential("https://h/x", with(app, func(c *upstream.Credential) { c.PrivateKey = "no key" })), "spec.credential.github_app.private_key"},
		{credential("https://h/x", with(app, func(c *upstream.Credential) { c.APIURL = "https://h/api/v3" })), ""},
		{credential("https://h/x", with(app, func(c *upstream.Credential) { c.APIURL = "http://h/api/v3" })), "spec.credential.github_app.api_url"},
		{credential("git@h:x", app), "spec.credential.github_app"},
		{credential("https://h/x", pair), ""},
		{credential("http://h/x", pair), "spec.credential.client_certificate"},
		{credential("https://h/x", with(pair, func(c *upstream.Credential) { c.ClientCertPEM = "" })), "spec.credential.client_certificate.certificate_pem"},
		{credential("https://h/x", with(pair, func(c *upstream.Credential) { c.ClientCertPEM = "no pem" })), "spec.credential.client_certificate.certificate_pem"},
		{credential("https://h/x", with(pair, func(c *upstream.Credential) { c.ClientKeyPEM = "" })), "spec.credential.client_certificate.private_key_pem"},
		{proxy("socks5h://u:p@h:1080"), ""},
		{proxy("https://h"), ""},
		{proxy("ftp://h"), "spec.proxy_url"},
		{proxy("http://"), "spec.proxy_url"},
		{proxy("http://h/path"), "spec.proxy_url"},
		{proxy("http://u:p%zz@h"), "spec.proxy_url"},
		{verification(upstream.ModeCommit, "", signer), ""},
		{verification(upstream.ModeTagAndCommit, "", "* namespaces=\"git\" "+signer), ""},
		{verification("0", "", signer), "spec.verification.mode"},
		{verification(upstream.ModeTag, "", ""), "spec.verification.pgp_keys"},
		{verification(upstream.ModeTag, "no key", signer), "spec.verification.pgp_keys"},
		{verification(upstream.ModeTag, "", "no key"), "spec.verification.ssh_allowed_signers"},
		{verification(upstream.ModeTag, "", "* valid-before=\"20200101\" "+signer), "spec.verification.ssh_allowed_signers"},
		{verification(upstream.ModeTag, strings.Repeat("\n", 300<<10), signer), "spec.verification"},
	} {
		err := test.object.Validate()
		got := ""
		if e, ok := errors.AsType[*fielderr.Error](err); ok {
			got = e.Path
		}
		if got != test.field || (err == nil) != (test.field == "") {
			t.Errorf("%+v: got %v, want field %q", test.object, err, test.field)
		}
	}
}

func TestPathsOfASource(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, root, folder, subpath string }{
		{"", "", "", ""},
		{".", "", "", ""},
		{"a/b/", "", "a/b", ""},
		{"a/b", "a", "a", "b"},
		{"a/b", ".", "", "a/b"},
		{"a/./b", "a/b", "a/b", ""},
		{"a/b/c", "./a/", "a", "b/c"},
		{"", ".", "", ""},
	} {
		s := catalog.Source{Path: test.path, Root: test.root}
		if s.Folder() != test.folder || s.Subpath() != test.subpath {
			t.Errorf("path %q root %q: got folder %q subpath %q, want %q and %q", test.path, test.root, s.Folder(), s.Subpath(), test.folder, test.subpath)
		}
		if s.Normal() != s.Normal().Normal() {
			t.Errorf("%+v: got %+v, which is not normal", s, s.Normal())
		}
	}
}
