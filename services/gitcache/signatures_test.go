// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/internal/testkit/signtest"
)

// wantDelivered wants what a source of a replica resolves to, once the repository has an owner.
func (r *replica) wantDelivered(t *testing.T, src *typev1.Source, want string) {
	t.Helper()
	await.Success(t, fmt.Sprintf("%v", src), func(ctx context.Context) error {
		resp, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: src})
		if got := resp.GetSnapshot().GetCommit(); err == nil && got != want {
			t.Fatalf("%v: got %q, want %q", src, got, want)
		}
		return err
	})
}

// look has a repository fetched, once it has an owner.
func (r *replica) look(t *testing.T, name string) {
	t.Helper()
	await.Success(t, "the fetch of "+name, func(ctx context.Context) error {
		_, err := r.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: name, Wait: true})
		return err
	})
}

func atDigest(digest string) *typev1.Source {
	return &typev1.Source{Repository: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: digest}}}
}

// TestSignedArtifacts delivers what a key signed, on every replica, through moves, restarts, new keys
// and the registry's absence.
func TestSignedArtifacts(t *testing.T) {
	t.Parallel()
	registry, redis := registrytest.Start(t, registrytest.Config{}), redistest.Start(t)
	counts := countRequests(t, registry)
	mine, other := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	signed := pushChart(t, registry, "1.0.0", "1.0.0")
	mine.PushTag(t, registry, "team/web", signed)
	foreign := pushChart(t, registry, "1.1.0", "1.1.0")
	other.PushTag(t, registry, "team/web", foreign)
	late := pushChart(t, registry, "1.2.0", "1.2.0")

	dirs := []string{t.TempDir(), t.TempDir()}
	replicas := []*replica{start(t, redis.URL(), dirs[0]), start(t, redis.URL(), dirs[1])}
	def := counts.definition()
	def.Verification = &gitcachev1.Verification{CosignKeys: mine.PublicKey(t)}
	replicas[0].put(t, def)
	for _, r := range replicas {
		r.state(t, "web", untroubled)
	}
	for _, r := range replicas {
		r.wantDelivered(t, inRange("1.x"), signed)
		r.wantDelivered(t, atTag("1.0.0"), signed)
		r.wantDelivered(t, atDigest(signed), signed)
		for _, src := range []*typev1.Source{atTag("1.1.0"), atTag("1.2.0"), inRange("~1.1"), atDigest(foreign), atDigest(late)} {
			wantMessage(t, r.tryResolve(t, src), signatureRejected, "has no cosign signature by the key")
		}
	}
	if got := counts.take()["GET blobs"]; got != 3 {
		t.Errorf("got %d blobs fetched, want one chart and two payloads, whoever asks", got)
	}
	state := replicas[0].state(t, "web", held)
	for _, word := range []string{"refs/tags/1.1.0", foreign, "cosign sign", "verification"} {
		if !strings.Contains(state.GetProblem().GetMessage(), word) {
			t.Errorf("got the problem %q, want it to hold %q", state.GetProblem().GetMessage(), word)
		}
	}
	if !slices.Equal(state.GetHeldRefs(), []string{"refs/tags/1.1.0", "refs/tags/1.2.0"}) {
		t.Errorf("got the refs %q held back", state.GetHeldRefs())
	}

	// The signature arrives, and the range moves.
	mine.PushTag(t, registry, "team/web", late)
	replicas[1].look(t, "web")
	for _, r := range replicas {
		r.wantDelivered(t, inRange("1.x"), late)
	}
	// The tag moves to an unsigned commit: the last good one stays, also after a restart.
	registry.Push(t, "team/web", "1.2.0", registrytest.ChartType,
		registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: tarball(t, webChart("1.2.0-unsigned"))})
	replicas[0].look(t, "web")
	for _, r := range replicas {
		r.wantDelivered(t, atTag("1.2.0"), late)
		r.wantDelivered(t, inRange("1.x"), late)
	}
	owner, follower := 0, 1
	if replicas[0].state(t, "web", held).GetOwner() == replicas[1].url {
		owner, follower = 1, 0
	}
	await.Success(t, "the follower's copy", func(context.Context) error {
		return holdsWhatItsOwnerHolds(t, replicas[owner], replicas[follower], "web")
	})
	counts.Close()
	replicas[owner].stop()
	await.Success(t, "the commit from the follower", func(ctx context.Context) error {
		resp, err := replicas[follower].ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: atTag("1.2.0")})
		if err == nil && resp.GetSnapshot().GetCommit() != late {
			err = fmt.Errorf("got %v, want %s", resp, late)
		}
		return err
	})
	again := start(t, redis.URL(), dirs[owner])
	await.Success(t, "the commit from the replica that has restarted", func(ctx context.Context) error {
		resp, err := again.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: atTag("1.2.0")})
		if err == nil && resp.GetSnapshot().GetCommit() != late {
			err = fmt.Errorf("got %v, want %s", resp, late)
		}
		return err
	})
}

// TestKeysOfArtifactsChange verifies again whenever the keys do.
func TestKeysOfArtifactsChange(t *testing.T) {
	t.Parallel()
	registry, redis := registrytest.Start(t, registrytest.Config{}), redistest.Start(t)
	counts := countRequests(t, registry)
	mine, other := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	signed := pushChart(t, registry, "1.0.0", "1.0.0")
	mine.PushTag(t, registry, "team/web", signed)
	bare := pushChart(t, registry, "1.1.0", "1.1.0")
	r := start(t, redis.URL(), t.TempDir())
	def := counts.definition()
	r.put(t, def)
	r.state(t, "web", untroubled)
	r.wantDelivered(t, inRange("1.x"), bare)
	verify := func(keys string, want string) {
		t.Helper()
		def.Version, def.Verification = def.GetVersion()+1, nil
		if keys != "" {
			def.Verification = &gitcachev1.Verification{Mode: gitcachev1.VerificationMode_VERIFICATION_MODE_ARTIFACT, CosignKeys: keys}
		}
		r.put(t, def)
		await.Success(t, "the artifact that these keys accept", func(ctx context.Context) error {
			resp, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: inRange("1.x")})
			if got := resp.GetSnapshot().GetCommit(); got != want || want == "" && !strings.Contains(fmt.Sprint(err), "has no cosign signature") {
				return fmt.Errorf("got %q (%w), want %q", got, err, want)
			}
			return nil
		})
	}
	verify(mine.PublicKey(t), signed)
	verify(other.PublicKey(t), "")
	verify(other.PublicKey(t)+mine.PublicKey(t), signed)
	verify("", bare)
}

// TestSignedCharts delivers versions of a Helm repository with good provenance files.
func TestSignedCharts(t *testing.T) {
	t.Parallel()
	repo, redis, signer := charttest.New(t), redistest.Start(t), signtest.NewChartSigner(t)
	publish := func(version, text string, by *signtest.ChartSigner) string {
		digest := repo.Publish(t, "web", version, charttest.Files("web", version, text))
		if by != nil {
			repo.PublishProvenance(t, "web", version, by.Sign(t, "web", version, repo.Archive(t, "web", version)))
		}
		return digest
	}
	first := publish("1.0.0", "one", signer)
	for i := range 5 { // more than a call looks up without a verification
		publish(fmt.Sprintf("1.1.%d", i), "unsigned", nil)
	}
	publish("1.2.0", "by another", signtest.NewChartSigner(t))
	r := start(t, redis.URL(), t.TempDir())
	def := charts(repo.URL())
	def.Verification = &gitcachev1.Verification{ProvenanceKeys: signer.PublicKey(t)}
	r.put(t, def)
	r.state(t, "charts", untroubled)
	refs, err := r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "charts"})
	if err != nil || len(refs.GetRefs()) != 7 {
		t.Fatalf("got %v (%v), want seven versions", refs, err)
	}
	for _, ref := range refs.GetRefs() {
		if ref.GetCommit() != "" || !strings.HasPrefix(ref.GetHeldBack(), "digest ") || !strings.HasSuffix(ref.GetHeldBack(), "has not been verified yet") {
			t.Errorf("got %v before anybody resolved it", ref)
		}
	}
	r.wantDelivered(t, chart("web", semver("1.x")), first)
	r.wantDelivered(t, chart("web", commit(first[:12])), first)
	wantMessage(t, r.tryResolve(t, chart("web", tag("1.2.0"))), signatureRejected, "refs/tags/web/1.2.0", "may not sign here")
	wantMessage(t, r.tryResolve(t, chart("web", tag("1.1.0"))), signatureRejected, "has no provenance file", "Sign it")
	if s := repo.Stats(); s.Provenances != 7 || s.Archives != 1 {
		t.Errorf("got %+v, want each provenance file asked for once, and one archive fetched", s)
	}
	r.state(t, "charts", held)
	second := publish("1.3.0", "two", signer)
	r.refresh(t, "charts")
	r.wantDelivered(t, chart("web", semver("1.x")), second)
	publish("1.3.0", "two, unsigned", nil)
	r.refresh(t, "charts")
	r.wantDelivered(t, chart("web", semver("1.x")), second)
}

// TestProvenanceOfRealHelm verifies what the real Helm has signed, and has the real Helm verify what
// other tests sign.
func TestProvenanceOfRealHelm(t *testing.T) {
	t.Parallel()
	binaries, err := localkube.Build(t.Context(), localkube.BuildParams{Helm: true})
	if err != nil {
		t.Fatal(err)
	}
	work, signer := t.TempDir(), signtest.NewChartSigner(t)
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	helm := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binaries.Helm, args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "HOME="+work, "XDG_CACHE_HOME="+work, "XDG_CONFIG_HOME="+work, "XDG_DATA_HOME="+work)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	secret, public := write("secret.gpg", signer.SecretRing(t)), write("public.gpg", signer.PublicRing(t))
	served := filepath.Join(work, "repo")
	for name, text := range charttest.Files("web", "1.0.0", "by helm") {
		write(filepath.Join("web", name), []byte(text))
	}
	helm("package", "web", "--destination", served, "--sign", "--key", "Leat Test", "--keyring", secret)
	helm("repo", "index", served)
	server := httptest.NewServer(http.FileServer(http.Dir(served)))
	t.Cleanup(server.Close)
	r := start(t, redistest.Start(t).URL(), t.TempDir())
	def := charts(server.URL)
	def.Verification = &gitcachev1.Verification{ProvenanceKeys: signer.PublicKey(t)}
	r.put(t, def)
	r.state(t, "charts", untroubled)
	if got := r.resolve(t, chart("web", nil)); got.GetFileCount() != 4 {
		t.Errorf("got %v", got)
	}

	archive := charttest.Pack(t, "web", charttest.Files("web", "2.0.0", "by the test"))
	ours := write("web-2.0.0.tgz", archive)
	write("web-2.0.0.tgz.prov", signer.Sign(t, "web", "2.0.0", archive))
	helm("verify", ours, "--keyring", public)
}

func TestKeysOfArtifactsAreChecked(t *testing.T) {
	t.Parallel()
	r := start(t, redistest.Start(t).URL(), t.TempDir())
	key := signtest.NewKey(t, signtest.P256).PublicKey(t)
	for field, def := range map[string]*gitcachev1.RepositoryDefinition{
		"cosign_keys":     {Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: "https://charts.invalid", Verification: &gitcachev1.Verification{CosignKeys: key}},
		"provenance_keys": {Type: gitcachev1.RepositoryType_REPOSITORY_TYPE_HELM, Url: "https://charts.invalid", Verification: &gitcachev1.Verification{}},
		"mode": {Url: "https://git.invalid/demo.git", Verification: &gitcachev1.Verification{
			Mode: gitcachev1.VerificationMode_VERIFICATION_MODE_ARTIFACT, CosignKeys: key,
		}},
	} {
		def.Name, def.Uid, def.Version = "web", "uid-web", 1
		_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: def})
		wantField(t, err, "repository.verification."+field)
	}
}
