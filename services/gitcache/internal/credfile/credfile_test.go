// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package credfile_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/credfile"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

func accept(mirror.Definition) error { return nil }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, text string) (*credfile.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	write(t, path, text)
	f := credfile.New(path, slog.New(slog.DiscardHandler))
	return f, f.Load(accept)
}

func token(name string) string { return "credential: {bearer: {token: " + name + "}}\n" }

func TestLongestPrefixWins(t *testing.T) {
	t.Parallel()
	f, err := load(t, ""+
		"- urlPrefix: https://git.example\n  "+token("host")+
		"- urlPrefix: https://git.example/team/\n  "+token("team")+
		"- urlPrefix: https://git.example/team/sub/repo.git\n  "+token("repo")+
		"- urlPrefix: https://git.example:8443\n  "+token("port")+
		"- urlPrefix: http://git.example\n  "+token("plain")+
		"- urlPrefix: ssh://git.example\n  "+token("anyone")+
		"- urlPrefix: git@git.example:team\n  "+token("git"))
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"https://git.example/other.git":         "host",
		"https://git.example":                   "host",
		"https://GIT.example:443/other.git":     "host",
		"https://git.example/team":              "team",
		"https://git.example//team/x":           "team",
		"https://git.example/team/sub/x":        "team",
		"https://git.example/team/sub/repo.git": "repo",
		"https://git.example/team2":             "host",
		"https://git.example/Team/x":            "host",
		"https://git.example:8443/team/x":       "port",
		"http://git.example/team/x":             "plain",
		"ssh://git@git.example/team/x":          "git",
		"git@git.example:team/x":                "git",
		"ssh://other@git.example:22/team/x":     "anyone",
		"git@git.example:team2/x":               "anyone",
		"https://git.example.evil/team":         "",
		"https://evil-git.example/team":         "",
		"https://git.example@evil/team":         "",
		"https://evil/git.example/team":         "",
		"https://git.example/team/../x":         "",
		"https://git.example/team/%2e%2e/x":     "",
		"https://git.example/team%2fsub/x":      "",
		"ssh://git@git.example:2222/team/x":     "",
		"ftp://git.example/team":                "",
		"https://":                              "",
	} {
		got, ok := f.For(url)
		if got.Token.Reveal() != want || ok != (want != "") {
			t.Errorf("%s: got %q (%t), want %q", url, got.Token.Reveal(), ok, want)
		}
	}
}

func TestEveryMethod(t *testing.T) {
	t.Parallel()
	f, err := load(t, `[
		{"urlPrefix": "https://a", "credential": {"basic": {"username": "u", "password": "p"}, "allowPlainHttp": true}},
		{"urlPrefix": "https://b", "credential": {"githubApp": {"appId": 1, "installationId": 2, "privateKey": "k", "apiUrl": "https://b/api"}}},
		{"urlPrefix": "https://c", "credential": {"clientCertificate": {"certificatePem": "c", "privateKeyPem": "k"}}},
		{"urlPrefix": "oci://e/team", "credential": {"workloadIdentity": {"provider": "aws", "principal": "p", "scope": "s"}}},
		{"urlPrefix": "oci://f", "credential": {"workloadIdentity": {"provider": "CLOUD_PROVIDER_GCP"}}},
		{"urlPrefix": "ssh://d", "credential": {"ssh": {"privateKey": "k", "passphrase": "p", "knownHosts": "h"}}}]`)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]upstream.Credential{
		"https://a/x":    {Method: upstream.MethodBasic, Username: "u", Password: "p", AllowPlainHTTP: true},
		"https://b/x":    {Method: upstream.MethodGitHubApp, AppID: 1, InstallationID: 2, PrivateKey: "k", APIURL: "https://b/api"},
		"https://c/x":    {ClientCertPEM: "c", ClientKeyPEM: "k"},
		"oci://e/team/x": {Method: upstream.MethodWorkloadIdentity, Cloud: upstream.CloudAWS, Principal: "p", Scope: "s"},
		"oci://f/x":      {Method: upstream.MethodWorkloadIdentity, Cloud: upstream.CloudGCP},
		"ssh://d/x":      {Method: upstream.MethodSSH, PrivateKey: "k", Passphrase: "p", KnownHosts: "h"},
	} {
		if got, _ := f.For(url); got.Credential != want {
			t.Errorf("%s: got another credential than was written", url)
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: canary9":            "not a list",
		"- urlPrefix: [canary9": "not a list",
		"- urlPrefx: https://a\n  " + token("canary9"):                                                   `unknown field "urlPrefx"`,
		"- urlPrefix: https://a\n  credential: {basic: canary9}":                                         "not a list",
		"- urlPrefix: https://u:canary9@a\n  " + token("canary9"):                                        "entry 1: urlPrefix",
		"- urlPrefix: ftp://a\n  " + token("canary9"):                                                    "entry 1: urlPrefix",
		"- urlPrefix: https://a/x/..\n  " + token("canary9"):                                             "entry 1: urlPrefix",
		"- urlPrefix: https://a\n  credential: {}":                                                       "none of",
		"- urlPrefix: https://a\n  credential: {bearer: {}, basic: {}}":                                  "more than one",
		"- urlPrefix: https://a\n  " + token("x") + "- urlPrefix: https://A:443/\n  " + token("canary9"): "there twice",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary9") {
			t.Errorf("%q: got %v, want %q and no secret", text, err, want)
		}
	}
	if err := credfile.New(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)).Load(accept); err == nil {
		t.Error("a missing file was taken for an empty one")
	}
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	write(t, path, "- urlPrefix: https://a\n  "+token("x"))
	refused := &mirror.FieldError{Field: "credential.bearer.token", Message: "No."}
	err := credfile.New(path, slog.New(slog.DiscardHandler)).Load(func(mirror.Definition) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want what the check says", err)
	}
}

// warnings counts the records at that level and above.
type warnings struct {
	slog.Handler
	count atomic.Int64
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		w.count.Add(1)
	}
	return nil
}

func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	write(t, path, "- urlPrefix: https://a\n  "+token("first"))
	synctest.Test(t, func(t *testing.T) {
		log := &warnings{Handler: slog.DiscardHandler}
		f := credfile.New(path, slog.New(log))
		if err := f.Load(accept); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		after := func(want string, warned int64) {
			t.Helper()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if got, _ := f.For("https://a/x"); got.Token.Reveal() != want || log.count.Load() != warned {
				t.Errorf("got %q after %d warnings, want %q after %d", got.Token.Reveal(), log.count.Load(), want, warned)
			}
		}
		after("first", 0)
		write(t, path, "- urlPrefix: https://a\n  "+token("second"))
		after("second", 0)
		write(t, path, "broken")
		after("second", 1) // once, however often it is read
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		after("second", 2)
		write(t, path, "- urlPrefix: https://a\n  "+token("third"))
		after("third", 2)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestMirrors finds the mirrors of the longest prefix that has some, also where another prefix has the credential.
func TestMirrors(t *testing.T) {
	t.Parallel()
	f, err := load(t, ""+
		"- {urlPrefix: 'oci://docker.io', mirrors: ['oci://cache.example/hub', 'oci+http://other.example:5000']}\n"+
		"- urlPrefix: oci://docker.io/team\n  "+token("team")+
		"- {urlPrefix: 'oci://docker.io/team/own', mirrors: ['oci://own.example']}\n"+
		"- urlPrefix: oci://cache.example\n  "+token("cache"))
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"oci://docker.io/team/web":     "oci://cache.example:443/hub/team/web oci+http://other.example:5000/team/web",
		"oci://docker.io/team/own/web": "oci://own.example:443/web",
		"oci+http://docker.io/x":       "",
		"oci://docker.io.evil/x":       "",
		"https://docker.io/x":          "",
	} {
		if got := strings.Join(f.Mirrors(url), " "); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
	if shared, ok := f.For("oci://docker.io/team/own/web"); !ok || shared.Token != "team" {
		t.Errorf("got %v, %v, want the credential of the shorter prefix", shared.Method, ok)
	}
	if _, ok := f.For("oci://docker.io/other"); ok {
		t.Error("mirrors are no credential")
	}
	for _, text := range []string{
		"- {urlPrefix: 'https://git.example', mirrors: ['oci://cache.example']}\n",
		"- {urlPrefix: 'oci://docker.io', mirrors: ['https://cache.example']}\n",
		"- {urlPrefix: 'oci://docker.io', mirrors: ['oci://docker.io/cache']}\n",
		"- {urlPrefix: 'oci://docker.io', mirrors: ['oci://u:p@cache.example']}\n",
		"- {urlPrefix: 'oci://docker.io', mirrors: [" + strings.Repeat("'oci://a.example',", 9) + "]}\n",
		"- {urlPrefix: 'oci://docker.io'}\n",
	} {
		if _, err := load(t, text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
