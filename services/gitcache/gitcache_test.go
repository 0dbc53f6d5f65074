// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/gitcache"
)

// unpack returns names and contents of a bundle, after checking it against its digest.
func unpack(t *testing.T, want string, stored []byte) map[string]string {
	t.Helper()
	d, err := digest.Parse(want)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := bundle.Decompress(bytes.NewReader(stored), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	r := bundle.NewReader(digest.NewVerifier(plain, d), bundle.DefaultLimits())
	files := map[string]string{}
	for {
		e, err := r.Next()
		if err == io.EOF { //nolint:errorlint // the reader promises the bare value
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := e.Name
		if e.Executable {
			name += "*"
		}
		files[name] = string(body) + e.Target
	}
}

func TestSnapshotTravels(t *testing.T) {
	t.Parallel()
	forEachBackend(t, snapshotTravels)
}

func snapshotTravels(t *testing.T, backend func(*gitcache.Config)) {
	t.Helper()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	first := repo.CommitFiles(t, "main", map[string]gittest.File{
		"app/a.yaml": gittest.Text("a: 1\n"), "app/run.sh": gittest.Executable("#!/bin/sh\n"),
		"app/link": gittest.Symlink("a.yaml"), "base/b.yaml": gittest.Text("b: 1\n"),
	})
	repo.AnnotatedTag(t, "v1.0.0", first)
	r := start(t, redis.URL(), t.TempDir(), backend)
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	snap := r.resolve(t, source("demo", "main", "app"))
	if snap.GetCommit() != first || snap.GetFileCount() != 3 {
		t.Errorf("got commit %s with %d files, want %s with 3", snap.GetCommit(), snap.GetFileCount(), first)
	}
	header, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: snap.GetDigest()})
	if err != nil {
		t.Fatal(err)
	}
	if header.GetStoredSize() != int64(len(stored)) || header.GetMediaType() != bundle.MediaType {
		t.Errorf("got header %v with %d bytes", header, len(stored))
	}
	want := map[string]string{"a.yaml": "a: 1\n", "run.sh*": "#!/bin/sh\n", "link": "a.yaml"}
	if diff := cmp.Diff(want, unpack(t, snap.GetDigest(), stored)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}

	second := repo.Commit(t, "main", map[string]string{"base/b.yaml": "b: 2\n"})
	r.refresh(t, "demo")
	again := r.resolve(t, source("demo", "main", "app"))
	if again.GetCommit() != second || again.GetDigest() != snap.GetDigest() {
		t.Errorf("got %s at %s, want the digest %s at %s", again.GetDigest(), again.GetCommit(), snap.GetDigest(), second)
	}
	for name, ref := range map[string]*typev1.GitRef{
		"annotated tag": {Selector: &typev1.GitRef_Tag{Tag: "v1.0.0"}},
		"commit":        {Selector: &typev1.GitRef_Commit{Commit: first}},
		"full name":     {Selector: &typev1.GitRef_Name{Name: "refs/tags/v1.0.0"}},
	} {
		if got := r.resolve(t, &typev1.Source{Repository: "demo", Ref: ref, Path: "app"}); got.GetCommit() != first {
			t.Errorf("%s: got commit %s, want %s", name, got.GetCommit(), first)
		}
	}
	if got := r.resolve(t, &typev1.Source{Repository: "demo", Path: "app", Root: "."}); got.GetCommit() != second || got.GetFileCount() != 4 {
		t.Errorf("HEAD with root: got %s with %d files, want %s with 4", got.GetCommit(), got.GetFileCount(), second)
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	forEachBackend(t, restartKeepsEverything)
}

func restartKeepsEverything(t *testing.T, backend func(*gitcache.Config)) {
	t.Helper()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n", "b.yaml": "b: 1\n"})
	dir := t.TempDir()
	r := start(t, redis.URL(), dir, backend)
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	before := r.resolve(t, source("demo", "main", "app"))
	r.stop()

	server.Stop()
	redis.Stop(t)
	repo.ResetStats()
	r = start(t, redis.URL(), dir, backend)
	after := r.resolve(t, source("demo", "main", "app"))
	if after.GetDigest() != before.GetDigest() || after.GetCommit() != before.GetCommit() {
		t.Errorf("got %v after a restart without redis and upstream, want %v", after, before)
	}
	if _, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: before.GetDigest()}); err != nil {
		t.Error(err)
	}
	_, err := r.RefreshRepository(t.Context(), &gitcachev1.RefreshRepositoryRequest{Name: "demo"})
	wantReason(t, err, errorsv1.Reason_REASON_OWNER_UNAVAILABLE)

	// With both back, the mirror is brought up to date, not cloned again.
	redis.Restart(t)
	server.Start(t)
	second := repo.Commit(t, "main", map[string]string{"b.yaml": "b: 2\n"})
	r.state(t, "demo", func(s *gitcachev1.RepositoryState) bool { return ready(s) && s.GetFetches() > 0 })
	got := r.resolve(t, source("demo", "main", "app"))
	if got.GetCommit() != second || got.GetDigest() != before.GetDigest() {
		t.Errorf("got %v, want commit %s with digest %s", got, second, before.GetDigest())
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	forEachBackend(t, reasons)
}

func reasons(t *testing.T, backend func(*gitcache.Config)) {
	t.Helper()
	server, redis := gittest.New(t), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.CommitFiles(t, "main", map[string]gittest.File{
		"app/a.yaml": gittest.Text("a: 1\n"), "out/link": gittest.Symlink("../app"),
		"lfs/big.bin": gittest.Text(gittest.LFSPointer("content")),
		"large/file":  gittest.Text(string(bytes.Repeat([]byte("x"), 100<<10))),
	})
	r := start(t, redis.URL(), t.TempDir(), backend)
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	resolve := func(src *typev1.Source) error {
		_, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: src})
		return err
	}
	wantReason(t, resolve(source("other", "main", "")), errorsv1.Reason_REASON_NOT_FOUND)
	wantReason(t, resolve(source("demo", "other", "")), errorsv1.Reason_REASON_REF_NOT_FOUND)
	wantReason(t, resolve(&typev1.Source{Repository: "demo", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Commit{
		Commit: "0123456789012345678901234567890123456789",
	}}}), errorsv1.Reason_REASON_REF_NOT_FOUND)
	wantReason(t, resolve(source("demo", "main", "nowhere")), errorsv1.Reason_REASON_PATH_NOT_FOUND)
	wantReason(t, resolve(&typev1.Source{Repository: "demo", Path: "nowhere", Root: "."}), errorsv1.Reason_REASON_PATH_NOT_FOUND)
	wantReason(t, resolve(source("demo", "main", "app/a.yaml")), errorsv1.Reason_REASON_PATH_NOT_FOUND)
	wantReason(t, resolve(source("demo", "main", "out")), errorsv1.Reason_REASON_CONTENT_UNSUPPORTED)
	wantReason(t, resolve(source("demo", "main", "lfs")), errorsv1.Reason_REASON_LFS_OBJECT_MISSING)
	wantReason(t, resolve(source("demo", "main", "large")), errorsv1.Reason_REASON_BUNDLE_TOO_LARGE)
	wantField(t, resolve(source("demo", "main", "../app")), "source.path")
	wantField(t, resolve(source("demo", "", "app")), "source.ref.branch")
	wantField(t, resolve(&typev1.Source{Repository: "demo", Path: "app", Root: "lfs"}), "source.root")
	wantField(t, resolve(source("Demo!", "main", "app")), "source.repository")

	_, _, err := r.download(t, &gitcachev1.DownloadBundleRequest{
		Repository: "demo", Digest: digest.FromBytes([]byte("nothing")).String(),
	})
	wantReason(t, err, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND)
	_, _, err = r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "demo", Digest: "md5:0"})
	wantField(t, err, "digest")
}

func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("good", "https://git.invalid/demo.git"))
	for field, change := range map[string]func(*gitcachev1.RepositoryDefinition){
		"repository.name":           func(d *gitcachev1.RepositoryDefinition) { d.Name = "Not a label" },
		"repository.uid":            func(d *gitcachev1.RepositoryDefinition) { d.Uid = "../up" },
		"repository.type":           func(d *gitcachev1.RepositoryDefinition) { d.Type = gitcachev1.RepositoryType(99) },
		"repository.url":            func(d *gitcachev1.RepositoryDefinition) { d.Url = "https://user:pass@git.invalid/demo" },
		"repository.poll_interval":  func(d *gitcachev1.RepositoryDefinition) { d.PollInterval.Seconds = 1 },
		"repository.ca_pem":         func(d *gitcachev1.RepositoryDefinition) { d.CaPem = "no certificate" },
		"repository.credential.ssh": func(d *gitcachev1.RepositoryDefinition) { d.Url = "git@git.invalid:demo" },
		"repository.credential.allow_plain_http": func(d *gitcachev1.RepositoryDefinition) {
			d.Url, d.Credential = "http://git.invalid/demo", basic("u", "p")
		},
		"repository.proxy_url": func(d *gitcachev1.RepositoryDefinition) { d.ProxyUrl = "ftp://proxy" },
		"repository.credential.client_certificate": func(d *gitcachev1.RepositoryDefinition) {
			d.Url, d.Credential = "http://git.invalid/demo", certificate()
		},
		"repository.credential.github_app.app_id":          func(d *gitcachev1.RepositoryDefinition) { d.Credential = app(0, 2, "") },
		"repository.credential.github_app.installation_id": func(d *gitcachev1.RepositoryDefinition) { d.Credential = app(1, 0, "") },
		"repository.credential.github_app.private_key":     func(d *gitcachev1.RepositoryDefinition) { d.Credential = app(1, 2, "no key") },
		"repository.credential.basic.password":             func(d *gitcachev1.RepositoryDefinition) { d.Credential = basic("u", "") },
		"repository.credential.ssh.private_key": func(d *gitcachev1.RepositoryDefinition) {
			d.Url = "ssh://git@git.invalid/demo"
			d.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_Ssh{Ssh: &gitcachev1.SSHCredential{PrivateKey: "x", KnownHosts: "h"}}}
		},
	} {
		def := definition("bad", "https://git.invalid/demo.git")
		change(def)
		_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: def})
		wantField(t, err, field)
	}
}

func app(id, installation int64, key string) *gitcachev1.Credential {
	return &gitcachev1.Credential{Method: &gitcachev1.Credential_GithubApp{
		GithubApp: &gitcachev1.GitHubAppCredential{AppId: id, InstallationId: installation, PrivateKey: key},
	}}
}

func certificate() *gitcachev1.Credential {
	return &gitcachev1.Credential{ClientCertificate: &gitcachev1.ClientCertificate{CertificatePem: "c", PrivateKeyPem: "k"}}
}

// TestSharedCredentials mirrors with a credential of the file, refuses to start with a bad file,
// and keeps the password of a proxy to itself.
func TestSharedCredentials(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t, gittest.WithBasicAuth("leat", "shared")), redistest.Start(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry := "- urlPrefix: " + server.URL() + "\n  credential: {basic: {username: leat, password: shared}"
	write(entry + "}")
	bad := gitcache.Config{
		RedisURL: redis.URL(), DataDir: t.TempDir(), Service: hubkeys.Config(identity.ServiceGitCache), CredentialsFile: path,
		Telemetry: telemetry.Config{LogOutput: io.Discard},
	}
	bad.Serve.ListenAddr = "127.0.0.1:0"
	err := gitcache.Run(t.Context(), bad)
	if err == nil || !strings.Contains(err.Error(), "allow_plain_http") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the file and its fault named", err)
	}
	write(entry + ", allowPlainHttp: true}")
	r := start(t, redis.URL(), t.TempDir(), func(c *gitcache.Config) { c.CredentialsFile = path })
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)

	def := definition("proxied", "https://git.invalid/x")
	def.ProxyUrl = "http://u:canary@127.0.0.1:1"
	r.put(t, def)
	got, err := r.GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: "proxied"})
	if err != nil || got.GetRepository().GetProxyUrl() != "http://u:xxxxx@127.0.0.1:1" {
		t.Errorf("got %q, %v, want the password masked", got.GetRepository().GetProxyUrl(), err)
	}
}

func basic(user, password string) *gitcachev1.Credential {
	return &gitcachev1.Credential{Method: &gitcachev1.Credential_Basic{
		Basic: &gitcachev1.BasicCredential{Username: user, Password: password},
	}}
}

// TestOnMiniredis runs the service on the Redis that "leat up" embeds.
func TestOnMiniredis(t *testing.T) {
	t.Parallel()
	server, redis := gittest.New(t), redistest.Mini(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	stream, err := r.WatchRepositories(t.Context(), &gitcachev1.WatchRepositoriesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() && !stream.Msg().GetSynced() {
	}
	second := repo.Commit(t, "main", map[string]string{"app/a.yaml": "a: 2\n"})
	r.refresh(t, "demo")
	for stream.Receive() && len(stream.Msg().GetEvent().GetChangedRefs()) == 0 {
	}
	if refs := stream.Msg().GetEvent().GetChangedRefs(); !slices.Equal(refs, []string{"HEAD", "refs/heads/main"}) {
		t.Errorf("got changed refs %v (%v), want HEAD and main", refs, stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if got := r.resolve(t, source("demo", "main", "app")); got.GetCommit() != second {
		t.Errorf("got commit %s, want %s", got.GetCommit(), second)
	}
}
