// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/gitbin"
	"github.com/leatdev/leat/services/gitcache/internal/gogit"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// fixture is a mirror of one repository, on the back end gogit, or on git below TestOnGit.
type fixture struct {
	mirror.Backend

	dir  string
	def  mirror.Definition
	have mirror.Content

	guarded     bool // reject local addresses that no administrator wrote, as in production; other tests have only local upstreams
	networks    []netip.Prefix
	root        func(string) (mirror.Root, bool)
	credentials uploadpack.Credentials
	proxy       func(*http.Request) (*url.URL, error)
	logger      *slog.Logger
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), def: mirror.Definition{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: url}}}
	f.reopen(t)
	return f
}

// reopen is a restart.
func (f *fixture) reopen(t *testing.T) {
	t.Helper()
	var err error
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	guard := dialguard.Guard{AllowLocal: !f.guarded, Allowed: f.networks}
	if onGit(t) {
		f.Backend, err = gitbin.New(gitbin.Config{
			Dir: f.dir, Guard: guard, Root: f.root, Credentials: f.credentials, Proxy: f.proxy, Logger: f.logger,
		})
	} else {
		f.Backend, err = gogit.New(gogit.Config{
			Dir: f.dir, Guard: guard, Root: f.root, Credentials: f.credentials, Proxy: f.proxy, Logger: f.logger,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnGit runs the tests of conversations once more on the back end git, which asks for version 2
// of the protocol. The omitted tests are about gogit alone.
func TestOnGit(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"client certificate":       TestClientCertificate,
		"GitHub App":               TestGitHubApp,
		"SSH key with passphrase":  TestSSHKeyWithPassphrase,
		"host keys":                TestHostKeys,
		"no credential impostors":  TestSharedCredentialIsNotForImpostors,
		"credential of a prefix":   TestCredentialOfAPrefix,
		"secrets":                  TestSecretsStayWhereTheyBelong,
		"SSH secrets":              TestSSHSecretsAreNotSaid,
		"strict multi_ack":         TestStrictMultiAck,
		"strict rounds":            TestStrictRounds,
		"old servers":              TestOldServers,
		"answers that are not Git": TestAnswersThatAreNotGit,
		"refusal":                  TestRefusalQuietsTheHost,
		"bearer":                   TestBearer,
		"TLS":                      TestTLS,
		"SSH":                      TestSSH,
		"not spoken":               TestNotSpoken,
		"quiet after a refusal":    TestQuietAfterRefusal,
		"context":                  TestContextEndsFetch,
		"proxies":                  TestProxies,
		"proxy of the environment": TestProxyOfTheEnvironment,
		"proxy URL":                TestProxyURLIsChecked,
		"admission":                TestAdmission,
		"object":                   TestObject,
		"lists without end":        TestSecListsWithoutEndAreCutOff,
		"guard":                    TestSecWhatNobodyWroteIsGuarded,
		"public only":              TestSecPublicOnly,
	} {
		t.Run(name, test)
	}
}

func onGit(t *testing.T) bool {
	t.Helper()
	return strings.HasPrefix(t.Name(), "TestOnGit/")
}

func allowed() error { return nil }

func (f *fixture) try(ctx context.Context) error {
	c, err := f.Fetch(ctx, mirror.FetchParams{Definition: f.def, Have: f.have, Epoch: 1, Guard: allowed})
	if err == nil {
		f.have = c
	}
	return err
}

func (f *fixture) fetch(t *testing.T) {
	t.Helper()
	if err := f.try(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// refs are the mirror's refs, by name without "refs/".
func (f *fixture) refs() map[string]string {
	refs := map[string]string{}
	for _, ref := range f.have.Refs {
		refs[strings.TrimPrefix(ref.Name, "refs/")] = ref.Commit
	}
	return refs
}

func (f *fixture) wantRefs(t *testing.T, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, f.refs()); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
}

// files reads a whole commit.
func (f *fixture) files(t *testing.T, commit string) map[string]string {
	t.Helper()
	r, err := f.Open(t.Context(), f.def.UID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	tree, err := r.Tree(t.Context(), commit, "")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	if err := walk(t.Context(), r, tree, "", files); err != nil {
		t.Fatal(err)
	}
	return files
}

// walk reads all files of a tree.
func walk(ctx context.Context, r content.Reader, tree, prefix string, files map[string]string) error {
	entries, err := r.List(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Kind == content.KindFolder {
			err = errors.Join(err, walk(ctx, r, e.ID, prefix+e.Name+"/", files))
			continue
		}
		f, openErr := r.Blob(ctx, e.ID)
		if openErr != nil {
			return openErr
		}
		data, readErr := io.ReadAll(f)
		files[prefix+e.Name] = string(data)
		err = errors.Join(err, readErr, f.Close())
	}
	return err
}

func wantReason(t *testing.T, err error, want reason.Reason) *mirror.UpstreamError {
	t.Helper()
	upstream, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || upstream.Reason != want || upstream.Message == "" {
		t.Fatalf("got error %v, want reason %s", err, want)
	}
	return upstream
}

// fsck lets git itself judge the mirror.
func fsck(t *testing.T, f *fixture) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(f.dir, f.def.UID, "gen-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("got generations %v (%v), want one", dirs, err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "--git-dir="+dirs[0], "fsck", "--full").CombinedOutput()
	if err != nil {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "git", "--git-dir="+dirs[0], "rev-parse", "HEAD").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != f.have.Head {
		t.Errorf("got HEAD %s (%v) from git, want %s", got, err, f.have.Head)
	}
}
