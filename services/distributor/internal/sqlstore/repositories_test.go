// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

func testCredentials(t *testing.T, s subject) {
	ctx, editor := t.Context(), catalog.NewEditor(s)
	r := repository("demo")
	r.Spec.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: "hunter2-in-the-clear"}
	apply(t, s, r)
	without := repository("demo")
	if got := apply(t, s, without)[0].Action; got != catalog.ActionUnchanged {
		t.Errorf("got %v, want unchanged: no credential leaves the stored one", got)
	}
	if got := apply(t, s, r)[0].Action; got != catalog.ActionUnchanged {
		t.Errorf("got %v, want unchanged: the credential is the same", got)
	}
	without.Spec.URL = "https://git.example/other"
	if _, err := update(ctx, editor, without); err != nil {
		t.Fatal(err)
	}
	definitions, _, err := s.Definitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := definitions[0].Spec.Credential; got != r.Spec.Credential {
		t.Error("the credential was not kept")
	}
	if got := changes(t, s, 0).Repositories[0].Spec.Credential; got != (upstream.Credential{}) {
		t.Error("the log of changes carries the credential")
	}
	wrongSecret(t, s)
	r.Spec.Credential, r.Spec.RemoveCredential = upstream.Credential{}, true
	apply(t, s, r)
	if definitions, _, err = s.Definitions(ctx); err != nil || definitions[0].Spec.Credential != (upstream.Credential{}) {
		t.Errorf("got %v, %v, want no credential", definitions[0].Spec.Credential, err)
	}
}

// testCredentialStaysWithItsServer changes the URL or the proxy of a repository, and leaves the
// credential out. Leat must not send a credential to another server than it was given for.
func testCredentialStaysWithItsServer(t *testing.T, s subject) {
	const https, ssh = "https://git.example/demo", "git@git.example:demo"
	basic := upstream.Credential{Method: upstream.MethodBasic, Username: "u", Password: "p", AllowPlainHTTP: true}
	key := upstream.Credential{Method: upstream.MethodSSH, PrivateKey: "key", KnownHosts: "git.example ssh-ed25519 AAAA"}
	for i, test := range []struct {
		credential    upstream.Credential
		before, after string
		proxy         secret.Text // of after; the one of before is http://u:p@proxy.example:3128
		kept          bool
	}{
		{basic, https, "https://git.example:443/moved", "", true},
		{basic, https, "https://GIT.example/demo", "", true},
		{basic, https, "https://git.example.org/demo", "", false},
		{basic, https, "https://git.example:8443/demo", "", false},
		{basic, https, "http://git.example/demo", "", false},
		{basic, https, "http://git.example:443/demo", "", false},
		{key, ssh, "ssh://other@git.example:22/demo", "", true},
		{key, ssh, "git@git.example:moved", "", true},
		{key, ssh, "git@evil.example:demo", "", false},
		{key, ssh, "ssh://git@git.example:2222/demo", "", false},
		{basic, https, https, "http://u:xxxxx@proxy.example:3128", true},
		{basic, https, https, "http://other:pw@proxy.example:3128", true},
		{basic, https, https, "http://u:p@evil.example:3128", false},
		{basic, https, https, "socks5://proxy.example:3128", false},
	} {
		name := fmt.Sprintf("r%d", i)
		r := repository(name)
		r.Spec.URL, r.Spec.Credential, r.Spec.ProxyURL = test.before, test.credential, "http://u:p@proxy.example:3128"
		apply(t, s, r)
		r.Spec.URL, r.Spec.Credential, r.Spec.ProxyURL = test.after, upstream.Credential{}, test.proxy
		_, err := update(t.Context(), catalog.NewEditor(s), r)
		if test.kept {
			if err != nil {
				t.Errorf("%s to %s by proxy %q: got %v, want the credential kept", test.before, test.after, test.proxy.Reveal(), err)
			}
			continue
		}
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "documents[0].spec.credential" || !strings.Contains(e.Message, "again") {
			t.Errorf("%s to %s by proxy %q: got %v, want to be asked for the credential again", test.before, test.after, test.proxy.Reveal(), err)
		}
		r.Spec.RemoveCredential = true
		if _, err := update(t.Context(), catalog.NewEditor(s), r); err != nil {
			t.Errorf("%s to %s without a credential: got %v, want it changed", test.before, test.after, err)
		}
	}
}

// testRegistryCredentials stores the credential of an OCI repository, and does not let an update
// name a further host that would be sent it.
func testRegistryCredentials(t *testing.T, s subject) {
	r := repository("web")
	r.Spec.Type, r.Spec.URL, r.Spec.Immutable = upstream.TypeOCI, "oci://registry.example/web", true
	r.Spec.TokenHosts = upstream.NewList([]string{"auth.example"})
	r.Spec.Credential = upstream.Credential{
		Method: upstream.MethodDockerConfig, DockerConfig: `{"auths":{"registry.example":{"auth":"dTpw"}}}`,
	}
	apply(t, s, r)
	definitions, _, err := s.Definitions(t.Context())
	if err != nil || definitions[0].Spec.Definition != r.Spec.Definition {
		t.Errorf("got %+v (%v), want %+v", definitions, err, r.Spec.Definition)
	}
	given := r.Spec.Credential
	r.Spec.Credential, r.Spec.TokenHosts = upstream.Credential{}, ""
	if _, err := update(t.Context(), catalog.NewEditor(s), r); err != nil {
		t.Errorf("got %v, want a token host removed", err)
	}
	r.Spec.TokenHosts = upstream.NewList([]string{"evil.example"})
	_, err = update(t.Context(), catalog.NewEditor(s), r)
	if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "documents[0].spec.credential" || !strings.Contains(e.Message, "evil.example") {
		t.Errorf("got %v, want to be asked for the credential again", err)
	}
	r.Spec.Credential = given
	if _, err := update(t.Context(), catalog.NewEditor(s), r); err != nil {
		t.Errorf("got %v, want the token host taken with the credential", err)
	}
}

// testPushCredentials stores which branches may be pushed to, and does not let an update use the
// stored credential for another branch, or send it to another API: it may have been given for reading.
func testPushCredentials(t *testing.T, s subject) {
	r := repository("shop")
	r.Spec.URL, r.Spec.Credential = "https://git.example/shop", upstream.Credential{Method: upstream.MethodBasic, Password: "p"}
	apply(t, s, r)
	given := r.Spec.Credential
	refused := func(push upstream.Push, want string) {
		t.Helper()
		r.Spec.Push, r.Spec.Credential = push, upstream.Credential{}
		_, err := update(t.Context(), catalog.NewEditor(s), r)
		if e, ok := errors.AsType[*fielderr.Error](err); !ok || e.Path != "documents[0].spec.credential" || !strings.Contains(e.Message, want) {
			t.Errorf("%v: got %v, want to be asked for the credential again", push, err)
		}
	}
	accepted := func(push upstream.Push, credential upstream.Credential) {
		t.Helper()
		r.Spec.Push, r.Spec.Credential = push, credential
		if _, err := update(t.Context(), catalog.NewEditor(s), r); err != nil {
			t.Errorf("%v: got %v, want it accepted", push, err)
		}
		definitions, _, err := s.Definitions(t.Context())
		if err != nil || definitions[0].Spec.Push != push || definitions[0].Spec.Credential != given {
			t.Errorf("got %+v (%v), want %+v stored with the credential", definitions, err, push)
		}
	}
	one, two := upstream.NewList([]string{"leat/*"}), upstream.NewList([]string{"leat/*", "main"})
	refused(upstream.Push{Branches: one}, "leat/*")
	accepted(upstream.Push{Branches: one}, given)
	accepted(upstream.Push{Branches: one, AuthorName: "Ada", Forge: upstream.ForgeGitea}, upstream.Credential{})
	refused(upstream.Push{Branches: two}, "main")
	accepted(upstream.Push{Branches: two}, given)
	refused(upstream.Push{Branches: two, APIURL: "https://evil.example/api/v1"}, "evil.example")
	accepted(upstream.Push{Branches: two, APIURL: "https://api.example/v1"}, given)
	refused(upstream.Push{Branches: two, APIURL: "https://api.example/v2"}, "api.example")
	accepted(upstream.Push{Branches: one}, upstream.Credential{})
	r.Spec.URL = "https://git.example/other"
	refused(upstream.Push{Branches: one}, "https://git.example/other")
	accepted(upstream.Push{}, upstream.Credential{})
}

func testWebhookSecrets(t *testing.T, s subject) {
	ctx := t.Context()
	const signing = secret.Text("a secret in the clear")
	stored := func() secret.Text {
		t.Helper()
		definitions, _, err := s.Definitions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return definitions[0].Spec.WebhookSecret
	}
	r := repository("demo")
	for _, step := range []struct {
		given  secret.Text
		remove bool
		did    catalog.Action
		want   secret.Text
	}{
		{signing, false, catalog.ActionCreated, signing},
		{"", false, catalog.ActionUnchanged, signing},
		{signing, false, catalog.ActionUnchanged, signing},
		{"", true, catalog.ActionConfigured, ""},
		{"", true, catalog.ActionUnchanged, ""},
		{"", false, catalog.ActionUnchanged, ""},
		{signing, false, catalog.ActionConfigured, signing},
	} {
		r.Spec.WebhookSecret, r.Spec.RemoveWebhookSecret = step.given, step.remove
		if got := apply(t, s, r)[0].Action; got != step.did || stored() != step.want {
			t.Errorf("given %q, remove %t: got %v with %q stored, want %v with %q",
				step.given.Reveal(), step.remove, got, stored().Reveal(), step.did, step.want.Reveal())
		}
	}
	if got := changes(t, s, 0).Repositories[0].Spec.WebhookSecret; got != "" {
		t.Error("the log of changes carries the secret")
	}
	wrongSecret(t, s)
}

func testProxy(t *testing.T, s subject) {
	ctx, editor := t.Context(), catalog.NewEditor(s)
	const given, masked = "http://u:hunter2-in-the-clear@proxy:3128", "http://u:xxxxx@proxy:3128"
	r := repository("demo")
	r.Spec.ProxyURL = masked
	if _, err := create(ctx, editor, r); err == nil {
		t.Error("a masked password was taken for one")
	}
	r.Spec.ProxyURL = given
	apply(t, s, r)
	if got := changes(t, s, 0).Repositories[0].Spec.ProxyURL.Reveal(); got != masked {
		t.Errorf("got %q from the log of changes, want the password masked", got)
	}
	shown := repository("demo")
	shown.Spec.ProxyURL = masked
	if got := apply(t, s, shown)[0].Action; got != catalog.ActionUnchanged {
		t.Errorf("got %v, want unchanged: it was sent back as it was shown", got)
	}
	shown.Spec.URL = "https://git.example/other"
	if _, err := update(ctx, editor, shown); err != nil {
		t.Fatal(err)
	}
	definitions, _, err := s.Definitions(ctx)
	if err != nil || definitions[0].Spec.ProxyURL.Reveal() != given {
		t.Errorf("got %v, %v, want the password kept", definitions[0].Spec.ProxyURL, err)
	}
	shown.Spec.ProxyURL = "http://u:xxxxx@elsewhere:3128"
	if _, err := update(ctx, editor, shown); err == nil {
		t.Error("a masked password was taken for another proxy")
	}
	shown.Spec.ProxyURL = ""
	apply(t, s, shown)
	if definitions, _, err = s.Definitions(ctx); err != nil || definitions[0].Spec.ProxyURL != "" {
		t.Errorf("got %v, %v, want no proxy", definitions[0].Spec.ProxyURL, err)
	}
}

func testVerification(t *testing.T, s subject) {
	want := upstream.Verification{
		Mode: upstream.ModeTag, SSHAllowedSigners: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9OF5kXFNqjZeDCAjI6cYwt1SGC8aZDXHUYxqOXFcCX",
	}
	r := repository("demo")
	r.Spec.Verification = want
	apply(t, s, r)
	definitions, _, err := s.Definitions(t.Context())
	if err != nil || definitions[0].Spec.Verification != want {
		t.Errorf("got %+v, %v, want what was put", definitions, err)
	}
	if got := changes(t, s, 0).Repositories[0].Spec.Verification; got != want {
		t.Errorf("got %+v from the log of changes, want what was put", got)
	}
	apply(t, s, repository("demo"))
	if definitions, _, err = s.Definitions(t.Context()); err != nil || definitions[0].Spec.Verification != (upstream.Verification{}) {
		t.Errorf("got %+v, %v, want it taken away", definitions, err)
	}
}

func testPartialClone(t *testing.T, s subject) {
	r := repository("demo")
	r.Spec.PartialClone = true
	apply(t, s, r)
	definitions, _, err := s.Definitions(t.Context())
	if err != nil || !definitions[0].Spec.PartialClone || !changes(t, s, 0).Repositories[0].Spec.PartialClone {
		t.Errorf("got %+v, %v, want a partial clone", definitions, err)
	}
	apply(t, s, repository("demo"))
	if definitions, _, err = s.Definitions(t.Context()); err != nil || definitions[0].Spec.PartialClone {
		t.Errorf("got %+v, %v, want it taken away", definitions, err)
	}
}

// testRepositoriesOfEarlierVersions has a replica of an earlier version write a repository: it knows
// the columns, and leaves spec as it is. Replicas of both run side by side while the hub is
// upgraded.
func testRepositoriesOfEarlierVersions(t *testing.T, s subject) {
	r := repository("demo")
	r.Spec.Credential = upstream.Credential{Method: upstream.MethodBearer, Token: "hunter2"}
	r.Spec.WebhookSecret, r.Spec.ProxyURL, r.Spec.PartialClone = "a secret in the clear", "http://u:p@proxy:3128", true
	apply(t, s, r)
	written := changes(t, s, 0).Repositories[0].Spec
	for _, change := range []string{
		"spec = ''",
		"suspended = FALSE, poll_interval = 7000000, url = 'https://git.example/moved', proxy_url = '', proxy_sealed = NULL, partial_clone = FALSE",
		`verification = '{"mode":"tag","ssh_allowed_signers":"ssh-ed25519 AAAA"}'`,
	} {
		if _, err := s.raw(t).ExecContext(t.Context(), "UPDATE repositories SET "+change); err != nil {
			t.Fatal(err)
		}
		if got := changes(t, s, 0).Repositories[0].Spec; change == "spec = ''" && got != written {
			t.Errorf("got %+v from the columns alone, want %+v", got, written)
		}
	}
	want := upstream.Definition{
		Type: upstream.TypeGit, URL: "https://git.example/moved", PollInterval: 7 * time.Second,
		Credential: r.Spec.Credential, WebhookSecret: r.Spec.WebhookSecret,
		Verification: upstream.Verification{Mode: upstream.ModeTag, SSHAllowedSigners: "ssh-ed25519 AAAA"},
	}
	definitions, _, err := s.Definitions(t.Context())
	if err != nil || definitions[0].Spec.Definition != want {
		t.Errorf("got %+v, %v, want %+v", definitions, err, want)
	}
}
