// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
	"github.com/leatdev/leat/internal/testkit/signtest"
)

// pathOf returns the path of the field that an error is about; "" without an error.
func pathOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	field, ok := errors.AsType[*fielderr.Error](err)
	if !ok {
		t.Fatalf("got error %v, want a *fielderr.Error", err)
	}
	return field.Path
}

func TestArtifactRepositories(t *testing.T) {
	t.Parallel()
	const url = "oci://registry.example:5000/team/charts/web"
	helm := upstream.Definition{Type: upstream.TypeHelm, URL: "https://charts.example/stable"}
	oci := upstream.Definition{Type: upstream.TypeOCI, URL: url}
	change := func(d upstream.Definition, change func(*upstream.Definition)) upstream.Definition {
		change(&d)
		return d
	}
	at := func(kind upstream.Type, url string) upstream.Definition {
		return upstream.Definition{Type: kind, URL: url}
	}
	login := func(d upstream.Definition, c upstream.Credential) upstream.Definition { d.Credential = c; return d }
	for i, test := range []struct {
		definition upstream.Definition
		want       string
	}{
		{helm, ""},
		{oci, ""},
		{at(upstream.TypeOCI, "oci+http://127.0.0.1:5000/web"), ""},
		{at(upstream.TypeOCI, "oci://r.example/a__b/c-d/e.f"), ""},
		{at(upstream.TypeHelm, "http://charts.example"), ""},
		{at(upstream.TypeHelm, "ssh://git@charts.example/x"), "url"},
		{at(upstream.TypeHelm, "git@charts.example:x"), "url"},
		{at(upstream.TypeHelm, url), "url"},
		{at(upstream.TypeGit, url), "url"},
		{at(upstream.TypeOCI, "https://registry.example/web"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/Web"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/web:1.2.3"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/web@sha256:1"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/a//b"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/../b"), "url"},
		{at(upstream.TypeOCI, "oci://u:p@registry.example/web"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/web?x=y"), "url"},
		{at(upstream.TypeOCI, "oci://registry.example/"+strings.Repeat("a", 255)), "url"},
		{at(upstream.TypeOCI, "oci:///web"), "url"},
		{at("svn", url), "type"},

		{change(at("", "https://h/x"), func(d *upstream.Definition) { d.ChartRepositories = upstream.NewList([]string{"charts", "a-1"}) }), ""},
		{change(helm, func(d *upstream.Definition) { d.ChartRepositories = upstream.NewList([]string{"charts"}) }), "chart_repositories"},
		{change(at("", "https://h/x"), func(d *upstream.Definition) { d.ChartRepositories = upstream.NewList([]string{"charts", "../x"}) }), "chart_repositories[1]"},
		{change(at("", "https://h/x"), func(d *upstream.Definition) { d.ChartRepositories = upstream.NewList(slices.Repeat([]string{"a"}, 65)) }), "chart_repositories"},
		{change(helm, func(d *upstream.Definition) {
			d.Charts, d.Immutable = upstream.NewList([]string{"web", "team-*"}), true
		}), ""},
		{change(helm, func(d *upstream.Definition) { d.Charts = upstream.NewList([]string{"web", "te[am"}) }), "charts[1]"},
		{change(helm, func(d *upstream.Definition) { d.Charts = upstream.NewList([]string{""}) }), "charts[0]"},
		{change(helm, func(d *upstream.Definition) { d.Charts = upstream.NewList([]string{"a/b"}) }), "charts[0]"},
		{change(helm, func(d *upstream.Definition) { d.Charts = upstream.NewList(slices.Repeat([]string{"a"}, 1001)) }), "charts"},
		{change(oci, func(d *upstream.Definition) { d.Charts = upstream.NewList([]string{"web"}) }), "charts"},
		{change(at("", "https://h/x"), func(d *upstream.Definition) { d.Charts = upstream.NewList([]string{"web"}) }), "charts"},
		{change(at("", "https://h/x"), func(d *upstream.Definition) { d.Immutable = true }), "immutable"},
		{change(oci, func(d *upstream.Definition) { d.Immutable = true }), ""},
		{change(oci, func(d *upstream.Definition) {
			d.TokenHosts = upstream.NewList([]string{"auth.example", "auth.example:8443"})
		}), ""},
		{change(oci, func(d *upstream.Definition) { d.TokenHosts = upstream.NewList([]string{"https://auth.example"}) }), "token_hosts[0]"},
		{change(oci, func(d *upstream.Definition) { d.TokenHosts = upstream.NewList([]string{"auth.example/x"}) }), "token_hosts[0]"},
		{change(oci, func(d *upstream.Definition) { d.TokenHosts = upstream.NewList([]string{"u@auth.example"}) }), "token_hosts[0]"},
		{change(helm, func(d *upstream.Definition) { d.TokenHosts = upstream.NewList([]string{"auth.example"}) }), "token_hosts"},
		{change(oci, func(d *upstream.Definition) { d.PartialClone = true }), "partial_clone"},
		{change(helm, func(d *upstream.Definition) { d.Verification.Mode = upstream.ModeTag }), "verification.mode"},

		{login(oci, upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: "p"}), ""},
		{login(oci, upstream.Credential{Method: upstream.MethodBearer, Token: "t"}), ""},
		{login(helm, upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: "p"}), ""},
		{login(at(upstream.TypeOCI, "oci+http://r/web"), upstream.Credential{Method: upstream.MethodBasic, Password: "p"}), "credential.allow_plain_http"},
		{login(at(upstream.TypeOCI, "oci+http://r/web"), upstream.Credential{Method: upstream.MethodBasic, Password: "p", AllowPlainHTTP: true}), ""},
		{login(oci, upstream.Credential{Method: upstream.MethodSSH, PrivateKey: "k", KnownHosts: "h"}), "credential.ssh"},
		{login(oci, upstream.Credential{Method: upstream.MethodGitHubApp}), "credential.github_app.app_id"},
		{login(oci, upstream.Credential{Method: upstream.MethodDockerConfig}), "credential.docker_config.config_json"},
		{login(oci, upstream.Credential{Method: upstream.MethodDockerConfig, DockerConfig: `{"auths":{"registry.example:5000":{"auth":"dTpw"}}}`}), ""},
		{
			login(oci, upstream.Credential{Method: upstream.MethodDockerConfig, DockerConfig: `{"auths":{"registry.example":{"auth":"dTpw"}}}`}),
			"credential.docker_config.config_json",
		},
		{
			login(helm, upstream.Credential{Method: upstream.MethodDockerConfig, DockerConfig: `{"auths":{"charts.example":{"auth":"dTpw"}}}`}),
			"credential.docker_config",
		},

		{login(oci, identity(upstream.CloudAWS, "", "")), ""},
		{login(oci, identity(upstream.CloudAWS, "arn:aws-cn:iam::123456789012:role/path/leat", "cn-north-1")), ""},
		{login(oci, identity(upstream.CloudAWS, "leat", "")), "credential.workload_identity.principal"},
		{login(oci, identity(upstream.CloudAWS, "", "evil.example/")), "credential.workload_identity.scope"},
		{login(oci, identity(upstream.CloudGCP, "", "")), ""},
		{
			login(oci, identity(upstream.CloudGCP, "leat@p.iam.gserviceaccount.com", "projects/1/locations/global/workloadIdentityPools/a/providers/b")),
			"",
		},
		{login(oci, identity(upstream.CloudGCP, "leat", "")), "credential.workload_identity.principal"},
		{login(oci, identity(upstream.CloudGCP, "", "//iam.googleapis.com/x")), "credential.workload_identity.scope"},
		{login(oci, identity(upstream.CloudAzure, "11111111-2222-3333-4444-555555555555", "contoso.onmicrosoft.com")), ""},
		{login(oci, identity(upstream.CloudAzure, "leat", "")), "credential.workload_identity.principal"},
		{login(oci, identity(upstream.CloudAzure, "", "../x")), "credential.workload_identity.scope"},
		{login(oci, identity("other", "", "")), "credential.workload_identity.provider"},
		{login(oci, identity("", "", "")), "credential.workload_identity.provider"},
		{login(helm, identity(upstream.CloudGCP, "", "")), "credential.workload_identity"},
		{login(at(upstream.TypeGit, "https://git.example/x"), identity(upstream.CloudGCP, "", "")), "credential.workload_identity"},
		{login(at(upstream.TypeGit, "ssh://git.example/x"), identity(upstream.CloudGCP, "", "")), "credential.workload_identity"},
		{login(at(upstream.TypeOCI, "oci+http://r/web"), identity(upstream.CloudGCP, "", "")), "credential.workload_identity"},
		{
			change(login(oci, identity(upstream.CloudGCP, "", "")), func(d *upstream.Definition) { d.TokenHosts = upstream.NewList([]string{"evil.example"}) }),
			"token_hosts",
		},
	} {
		if got := pathOf(t, test.definition.Validate()); got != test.want {
			t.Errorf("%d, %s %s: got an error at %q (%v), want it at %q", i, test.definition.Type, test.definition.URL, got,
				test.definition.Validate(), test.want)
		}
	}
}

// TestSecPushIsValidated refuses what would become a ref, a commit's header or a request other than
// its author meant.
func TestSecPushIsValidated(t *testing.T) {
	t.Parallel()
	to := func(change func(*upstream.Push)) upstream.Push {
		p := upstream.Push{Branches: upstream.NewList([]string{"leat/*", "main"})}
		change(&p)
		return p
	}
	branches := func(names ...string) upstream.Push { return upstream.Push{Branches: upstream.NewList(names)} }
	api := func(url string) upstream.Push { return to(func(p *upstream.Push) { p.APIURL = url }) }
	for _, test := range []struct {
		push upstream.Push
		want string
	}{
		{upstream.Push{}, ""},
		{branches("leat/*", "main", "*", "release-*.x"), ""},
		{upstream.Push{Forge: upstream.ForgeGitea}, "push.branches"},
		{branches(slices.Repeat([]string{"a"}, 33)...), "push.branches"},
		{branches("main", "refs/heads/main"), "push.branches[1]"},
		{branches(""), "push.branches[0]"},
		{branches("-f"), "push.branches[0]"},
		{branches("a..b"), "push.branches[0]"},
		{branches("a b"), "push.branches[0]"},
		{branches("HEAD"), "push.branches[0]"},
		{branches("a//b"), "push.branches[0]"},
		{branches("a.lock"), "push.branches[0]"},
		{branches("a?"), "push.branches[0]"},
		{branches(strings.Repeat("a", 201)), "push.branches[0]"},
		{to(func(p *upstream.Push) { p.AuthorName, p.AuthorEmail = "Ada Lovelace", "ada@example.com" }), ""},
		{to(func(p *upstream.Push) { p.AuthorName = "Ada <root@example.com>" }), "push.author_name"},
		{to(func(p *upstream.Push) { p.AuthorName = "Ada\ngpgsig x" }), "push.author_name"},
		{to(func(p *upstream.Push) { p.AuthorName = " " }), "push.author_name"},
		{to(func(p *upstream.Push) { p.AuthorName = strings.Repeat("a", 201) }), "push.author_name"},
		{to(func(p *upstream.Push) { p.AuthorEmail = "ada @example.com" }), "push.author_email"},
		{to(func(p *upstream.Push) { p.AuthorEmail = "ada\n@example.com" }), "push.author_email"},
		{to(func(p *upstream.Push) { p.Forge = "sourceforge" }), "push.forge"},
		{api("https://git.example/api/v4"), ""},
		{api("http://git.example/api/v4"), "push.api_url"},
		{api("https://u:p@git.example/api/v4"), "push.api_url"},
		{api("https://git.example/api?x=y"), "push.api_url"},
		{api("file:///etc"), "push.api_url"},
		{api("https://"), "push.api_url"},
	} {
		d := upstream.Definition{URL: "https://git.example/demo", Push: test.push}
		if got := pathOf(t, d.Validate()); got != test.want {
			t.Errorf("%+v: got an error at %q (%v), want it at %q", test.push, got, d.Validate(), test.want)
		}
	}
	charts := upstream.Definition{Type: upstream.TypeHelm, URL: "https://charts.example", Push: branches("main")}
	if got := pathOf(t, charts.Validate()); got != "push" {
		t.Errorf("got an error at %q for a Helm repository, want it at push", got)
	}
}

// TestSecPushNamesItsBranches matches branches that only look as if they were named.
func TestSecPushNamesItsBranches(t *testing.T) {
	t.Parallel()
	p := upstream.Push{Branches: upstream.NewList([]string{"leat/*", "main", "v*.x", "a*b*c"})}
	for branch, want := range map[string]bool{
		"main": true, "leat/image/shop/web": true, "leat/a": true, "v1.x": true, "v.x": true, "abc": true, "a-b-b-c": true,
		"": false, "Main": false, "main2": false, "xmain": false, "leat/": false, "leat": false, "xleat/a": false, "v1.y": false, "ac": false,
		"leat/../main": false, "leat/a b": false, "leat/*": false, "-leat/a": false, "refs/heads/main": false, "leat/a\nmain": false, "leat/.git": false,
	} {
		if got := p.Allows(branch); got != want {
			t.Errorf("%q: got %v, want %v", branch, got, want)
		}
	}
	if (upstream.Push{}).Allows("main") {
		t.Error("got a branch allowed that nothing names")
	}
}

func TestRegistryURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"oci://r.example/team/web":         "https://r.example team/web",
		"oci://docker.io/library/web":      "https://registry-1.docker.io library/web",
		"oci://r.example:443/web/":         "https://r.example:443 web",
		"oci+http://[::1]:5000/team/a-b_c": "http://[::1]:5000 team/a-b_c",
	} {
		got, err := upstream.ParseRegistry(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if text := got.Base.String() + " " + got.Name; text != want {
			t.Errorf("%s: got %s, want %s", url, text, want)
		}
	}
	if _, err := upstream.ParseRegistry("oci://sesame:sesame@r/web"); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("got error %v, want one without the URL", err)
	}
}

// TestSecDockerConfigRunsNoHelper refuses configurations that name programs, and shows that no
// message repeats what a configuration holds.
func TestSecDockerConfigRunsNoHelper(t *testing.T) {
	t.Parallel()
	const auth = "dXNlcjpzZXNhbWU=" // user:sesame
	for config, want := range map[string]upstream.DockerLogin{
		`{"auths":{"r.example":{"auth":"` + auth + `"}}}`:                                      {Username: "user", Password: "sesame"},
		`{"auths":{"https://r.example":{"username":"user","password":"sesame"}}}`:              {Username: "user", Password: "sesame"},
		`{"auths":{"r.example":{"auth":"dXNlcjo=","identitytoken":"sesame"}}}`:                 {Username: "user", Refresh: "sesame"},
		`{"auths":{"r.example":{"registrytoken":"sesame"},"other":{"auth":"no base64"}}}`:      {Token: "sesame"},
		`{"auths":{"r.example":{"auth":"` + auth + `"}},"credsStore":"sesame"}`:                {},
		`{"auths":{"r.example":{"auth":"` + auth + `"}},"credHelpers":{"r.example":"sesame"}}`: {},
		`{"auths":{"r.example":{"auth":"sesame"}}}`:                                            {},
		`{"auths":{"r.example":{}}}`:                                                           {},
		`{"auths":{"r.example":{"username":"user","password":"sesame\r\nX: y"}}}`:              {},
		`{"auths":{"other":{"auth":"` + auth + `"}}}`:                                          {},
		`{"auths":["sesame"]}`: {},
		`sesame`:               {},
	} {
		got, err := upstream.ParseDockerConfig(secret.Text(config), "r.example")
		if got != want || (err == nil) != (want != upstream.DockerLogin{}) {
			t.Errorf("%s: got %q %q %q %q (%v)", config, got.Username, got.Password.Reveal(), got.Refresh.Reveal(), got.Token.Reveal(), err)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got error %v, want it without the secret", config, err)
		}
	}
	hub := secret.Text(`{"auths":{"https://index.docker.io/v1/":{"auth":"` + auth + `"}}}`)
	if got, err := upstream.ParseDockerConfig(hub, "registry-1.docker.io"); err != nil || got.Username != "user" {
		t.Errorf("got %v (%v), want the entry of Docker Hub", got, err)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{nil, {""}, {"a"}, {"a", "", "b"}, {"", ""}} {
		list := upstream.NewList(names)
		encoded, err := json.Marshal(struct {
			L upstream.List `json:"l,omitempty"`
		}{list})
		if err != nil {
			t.Fatal(err)
		}
		var back struct{ L upstream.List }
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(list.Names(), names) || back.L != list {
			t.Errorf("got %q and, from %s, %q, want %q", list.Names(), encoded, back.L.Names(), names)
		}
	}
}

// TestKeysOfArtifacts accepts the kinds of keys that repositories of each type have, and no others.
func TestKeysOfArtifacts(t *testing.T) {
	t.Parallel()
	cosign, chart := signtest.NewKey(t, signtest.P256).PublicKey(t), signtest.NewChartSigner(t).PublicKey(t)
	git := upstream.Definition{URL: "https://git.example/x"}
	helm := upstream.Definition{Type: upstream.TypeHelm, URL: "https://charts.example"}
	oci := upstream.Definition{Type: upstream.TypeOCI, URL: "oci://registry.example/web"}
	const artifact = upstream.ModeArtifact
	for i, test := range []struct {
		definition   upstream.Definition
		verification upstream.Verification
		want         string // path of the error; empty: there is none
	}{
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign}, ""},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign + "text between\n" + cosign}, ""},
		{oci, upstream.Verification{Mode: artifact, ProvenanceKeys: chart}, ""},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign, ProvenanceKeys: chart}, ""},
		{helm, upstream.Verification{Mode: artifact, ProvenanceKeys: chart}, ""},
		{oci, upstream.Verification{Mode: artifact}, "verification.cosign_keys"},
		{oci, upstream.Verification{CosignKeys: cosign}, "verification.mode"},
		{oci, upstream.Verification{Mode: upstream.ModeTag, CosignKeys: cosign}, "verification.mode"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign, PGPKeys: chart}, "verification.pgp_keys"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign, SSHAllowedSigners: "x"}, "verification.ssh_allowed_signers"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: "hello"}, "verification.cosign_keys"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: cosign + strings.Replace(cosign, "M", "*", 1)}, "verification.cosign_keys"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: chart}, "verification.cosign_keys"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: strings.Repeat(cosign, 33)}, "verification.cosign_keys"},
		{oci, upstream.Verification{Mode: artifact, CosignKeys: strings.Repeat(" ", 300<<10)}, "verification"},
		{oci, upstream.Verification{Mode: artifact, ProvenanceKeys: cosign}, "verification.provenance_keys"},
		{helm, upstream.Verification{Mode: artifact}, "verification.provenance_keys"},
		{helm, upstream.Verification{Mode: artifact, CosignKeys: cosign, ProvenanceKeys: chart}, "verification.cosign_keys"},
		{git, upstream.Verification{Mode: artifact, CosignKeys: cosign}, "verification.mode"},
		{git, upstream.Verification{Mode: upstream.ModeTag, PGPKeys: chart, CosignKeys: cosign}, "verification.cosign_keys"},
		{git, upstream.Verification{Mode: upstream.ModeTag, PGPKeys: chart, ProvenanceKeys: chart}, "verification.provenance_keys"},
	} {
		test.definition.Verification = test.verification
		if got := pathOf(t, test.definition.Validate()); got != test.want {
			t.Errorf("%d: got an error at %q (%v), want it at %q", i, got, test.definition.Validate(), test.want)
		}
		if test.want == "" && test.verification.ValidateKeys(time.Now()) != nil {
			t.Errorf("%d: got %v of keys that may sign", i, test.verification.ValidateKeys(time.Now()))
		}
	}
}

func identity(cloud upstream.Cloud, principal, scope string) upstream.Credential {
	return upstream.Credential{Method: upstream.MethodWorkloadIdentity, Cloud: cloud, Principal: principal, Scope: scope}
}

// TestIdentityTakesNoCertificates refuses a definition that itself names who passes for a cloud's
// registry.
func TestIdentityTakesNoCertificates(t *testing.T) {
	t.Parallel()
	d := upstream.Definition{
		Type: upstream.TypeOCI, URL: "oci://europe-docker.pkg.dev/team/web", Credential: identity(upstream.CloudGCP, "", ""),
		CAPEM: string(selfsigned.New(t, "europe-docker.pkg.dev").PEM),
	}
	if got := pathOf(t, d.Validate()); got != "ca_pem" {
		t.Errorf("got an error at %q, want it at ca_pem", got)
	}
	d.CAPEM = ""
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}
