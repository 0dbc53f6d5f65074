// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisregistry_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/seal"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// recorded is the definition in testdata/record.json, which a replica wrote before records were
// definitions themselves. Such a replica ignores a type, because it knows only Git.
func recorded() mirror.Definition {
	return mirror.Definition{
		Name: "demo", UID: "uid-1", Version: 7, Parent: "other", ParentUID: "uid-other",
		Definition: upstream.Definition{
			Type: upstream.TypeGit, URL: "https://git.invalid/demo", PollInterval: 90 * time.Second, CAPEM: "ca", Suspended: true,
			ProxyURL: "socks5://u:p@proxy.invalid", WebhookSecret: "s", PartialClone: true,
			Credential: upstream.Credential{
				Method: upstream.MethodBasic, Username: "leat", Password: "p", Token: "t", PrivateKey: "k", Passphrase: "w", KnownHosts: "h",
				AllowPlainHTTP: true, AppID: 1<<53 + 1, InstallationID: 2, APIURL: "https://api.invalid", ClientCertPEM: "c", ClientKeyPEM: "ck",
			},
			Verification: upstream.Verification{Mode: upstream.ModeTag, PGPKeys: "pgp", SSHAllowedSigners: "ssh"},
		},
	}
}

// current is the definition with the fields that came after it, which such a replica ignores.
func current() mirror.Definition {
	d := recorded()
	d.Charts, d.Immutable, d.TokenHosts = upstream.NewList([]string{"web", "team-*"}), true, upstream.NewList([]string{"auth.invalid"})
	d.Verification.CosignKeys, d.Verification.ProvenanceKeys = "cosign", "provenance"
	d.ChartRepositories, d.PublicOnly = upstream.NewList([]string{"charts"}), true
	d.Push = upstream.Push{
		Branches: upstream.NewList([]string{"leat/*"}), AuthorName: "Ada", AuthorEmail: "ada@example.invalid", Forge: upstream.ForgeGitea,
		APIURL: "https://api.invalid/v1",
	}
	d.Credential.DockerConfig, d.Credential.Cloud, d.Credential.Principal, d.Credential.Scope = "d", "aws", "role", "region"
	return d
}

// wantFilled fails for a field that the definition above leaves empty: a new one belongs there.
func wantFilled(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		switch field := v.Field(i); {
		case field.Kind() == reflect.Struct:
			wantFilled(t, name, field)
		case field.IsZero():
			t.Errorf("%s is empty; the test has to carry every field", name)
		}
	}
}

// TestRecordsOfOtherVersions has replicas of this and of earlier versions read each other's
// records, as they do during an upgrade.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Parallel()
	wantFilled(t, "definition", reflect.ValueOf(current()))
	golden, err := os.ReadFile(filepath.Join("testdata", "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := seal.NewSealer([]byte(strings.Repeat("s", seal.MinSecret)), "test")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := sealer.Seal(golden, []byte("demo"))
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.StartAs(t, "gitcache")
	row := "7 uid-1 " + base64.StdEncoding.EncodeToString(sealed)
	if err := server.Client(t).HSet(t.Context(), "leat:{gitcache}:test:repositories", "demo", row).Err(); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, server, filepath.Join(t.TempDir(), "a.json"))
	old := recorded()
	old.Type = "" // earlier versions did not write it
	r.want(t, old)

	next := current()
	next.Version = 8
	if err := r.Put(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	r.want(t, next)
	written, err := server.Client(t).HGet(t.Context(), "leat:{gitcache}:test:repositories", "demo").Result()
	if err != nil {
		t.Fatal(err)
	}
	if sealed, err = base64.StdEncoding.DecodeString(strings.TrimPrefix(written, "8 uid-1 ")); err != nil {
		t.Fatal(err)
	}
	plain, err := sealer.Open(sealed, []byte("demo"))
	if err != nil {
		t.Fatal(err)
	}
	fields := func(text string) (fields map[string]any) {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	want := fields(string(golden))
	want["version"], want["type"] = json.Number("8"), "git"
	want["charts"], want["immutable"], want["token_hosts"] = []any{"web", "team-*"}, true, []any{"auth.invalid"}
	want["cosign_keys"], want["provenance_keys"] = "cosign", "provenance"
	want["chart_repositories"], want["public_only"] = []any{"charts"}, true
	want["push"] = map[string]any{
		"branches": []any{"leat/*"}, "author_name": "Ada", "author_email": "ada@example.invalid", "forge": "gitea", "api_url": "https://api.invalid/v1",
	}
	want["docker_config"], want["cloud"], want["principal"], want["scope"] = "d", "aws", "role", "region"
	if diff := cmp.Diff(want, fields(string(plain))); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
