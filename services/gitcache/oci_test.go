// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache"
)

// counted counts the requests to a registry by their kind.
type counted struct {
	*httptest.Server

	mu    sync.Mutex
	kinds map[string]int
}

func countRequests(t *testing.T, registry *registrytest.Registry) *counted {
	t.Helper()
	c := &counted{kinds: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry.Addr})
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/team/web/"), "/")[0]
		c.mu.Lock()
		c.kinds[r.Method+" "+kind]++
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// take returns the requests since the last call.
func (c *counted) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.kinds
	c.kinds = map[string]int{}
	return taken
}

func (c *counted) definition() *gitcachev1.RepositoryDefinition {
	def := definition("web", "oci+http://"+c.Listener.Addr().String()+"/team/web")
	def.Type = gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI
	return def
}

// tarball makes a chart's archive: its folder is named after it.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) { // in another order than Git's
		err := w.WriteHeader(&tar.Header{Name: "web/" + name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Now()})
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func webChart(version string) map[string]string {
	return map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: " + version + "\n", "values.yaml": "replicas: 1\n",
		"templates/web.yaml": "kind: Deployment\n", "templates/_helpers.tpl": "{{- define \"x\" -}}{{- end -}}\n",
	}
}

func pushChart(t *testing.T, r *registrytest.Registry, tag, version string) string {
	t.Helper()
	return r.Push(t, "team/web", tag, registrytest.ChartType,
		registrytest.Layer{MediaType: registrytest.ChartLayerType, Data: tarball(t, webChart(version))})
}

func inRange(text string) *typev1.Source {
	return &typev1.Source{Repository: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: text}}}
}

func atTag(tag string) *typev1.Source {
	return &typev1.Source{Repository: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: tag}}}
}

// TestRegistry follows a chart through three replicas: one of them polls and downloads, once, and the
// others copy. The registry goes, and everything is served on.
func TestRegistry(t *testing.T) {
	t.Parallel()
	registry, redis := registrytest.Start(t, registrytest.Config{}), redistest.Start(t)
	counts := countRequests(t, registry)
	replicas := []*replica{}
	for range 3 {
		replicas = append(replicas, start(t, redis.URL(), t.TempDir(), func(c *gitcache.Config) { c.Followers = 2 }))
	}
	first := pushChart(t, registry, "1.0.0", "1.0.0")
	second := pushChart(t, registry, "1.2.0", "1.2.0")
	replicas[0].put(t, counts.definition())
	owner := replicas[0].state(t, "web", ready).GetOwner()
	slices.SortFunc(replicas, func(a, b *replica) int { // the owner comes last
		switch owner {
		case a.url:
			return 1
		case b.url:
			return -1
		}
		return 0
	})

	want := replicas[0].resolve(t, inRange("1.x"))
	if want.GetCommit() != second || want.GetFileCount() != 4 || want.GetVersion() != "1.2.0" {
		t.Fatalf("got %v, want the highest version at %s", want, second)
	}
	var resolving sync.WaitGroup
	for _, r := range slices.Repeat(replicas, 10) {
		resolving.Go(func() {
			if got := r.resolve(t, inRange("1.x")); got.GetDigest() != want.GetDigest() {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	resolving.Wait()
	if diff := cmp.Diff(map[string]int{"GET tags": 1, "HEAD manifests": 1, "GET manifests": 1, "GET blobs": 1}, counts.take()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	for _, r := range replicas {
		_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{
			Repository: "web", Digest: want.GetDigest(), Commit: want.GetCommit(), Source: inRange("1.x"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(webChart("1.2.0"), unpack(t, want.GetDigest(), stored)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	// A part of it is a snapshot of its own, and a tag another one.
	part := inRange("1.x")
	part.Path = "templates"
	if got := replicas[1].resolve(t, part); got.GetFileCount() != 2 {
		t.Errorf("got %v of a folder", got)
	}
	if got := replicas[1].resolve(t, atTag("1.0.0")); got.GetCommit() != first || got.GetDigest() == want.GetDigest() {
		t.Errorf("got %v of another version", got)
	}
	file, err := replicas[0].ReadFile(t.Context(), &gitcachev1.ReadFileRequest{Source: &typev1.Source{
		Repository: "web", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: first}}, Path: "values.yaml",
	}})
	if err != nil || string(file.GetContent()) != "replicas: 1\n" {
		t.Errorf("got %v (%v)", file, err)
	}
	counts.take()

	third := pushChart(t, registry, "1.3.0", "1.3.0")
	replicas[0].refresh(t, "web")
	if got := replicas[0].resolve(t, inRange("1.x")); got.GetCommit() != third {
		t.Errorf("got %v after a poll, want %s", got, third)
	}
	if got := counts.take(); got["GET tags"] != 1 || got["GET blobs"] != 1 {
		t.Errorf("got the requests %v, want one list and one archive", got)
	}

	// Both the owner and the registry go. The remaining replicas serve the copied content.
	await.Success(t, "the copies of the third version", func(context.Context) error { return copied(t, replicas[:2], third) })
	counts.Close()
	replicas[2].stop()
	for _, r := range replicas[:2] {
		await.Success(t, "the third version without the registry", func(ctx context.Context) error {
			resp, err := r.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: inRange("1.x")})
			if err == nil && resp.GetSnapshot().GetCommit() != third {
				err = fmt.Errorf("got %v, want %s", resp, third)
			}
			return err
		})
		if got := r.resolve(t, atTag("1.2.0")); got.GetDigest() != want.GetDigest() {
			t.Errorf("got %v without the registry, want %v", got, want)
		}
	}
}

// copied returns an error unless the replicas hold what leads to a digest.
func copied(t *testing.T, replicas []*replica, digest string) error {
	t.Helper()
	for _, r := range replicas {
		resp, err := dialReplica(t, r.url, "gitcache").GetMirror(t.Context(), &gitcachev1.GetMirrorRequest{Repository: "web", Uid: "uid-web"})
		if err != nil {
			return err
		}
		isHeld := slices.ContainsFunc(resp.GetFiles(), func(f *gitcachev1.MirrorFile) bool { return strings.Contains(f.GetName(), digest) })
		if !isHeld {
			return fmt.Errorf("%s holds %v, want %s", r.url, resp.GetFiles(), digest)
		}
	}
	return nil
}

// TestAChartIsTheSameEverywhere has one digest, whether it comes from Git or from a registry.
func TestAChartIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	registry, redis, server := registrytest.Start(t, registrytest.Config{}), redistest.Start(t), gittest.New(t)
	counts := countRequests(t, registry)
	pushChart(t, registry, "1.0.0_b1", "1.0.0+b1")
	repo := server.Repo(t, "demo")
	files := map[string]string{}
	for name, text := range webChart("1.0.0+b1") {
		files["charts/web/"+name] = text
	}
	repo.Commit(t, "main", files)
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, counts.definition())
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "web", ready)
	r.state(t, "demo", ready)
	git, oci := r.resolve(t, source("demo", "main", "charts/web")), r.resolve(t, atTag("1.0.0+b1"))
	if git.GetDigest() != oci.GetDigest() || git.GetContentSize() != oci.GetContentSize() {
		t.Errorf("got %v from Git and %v from the registry, want one digest", git, oci)
	}
	refs, err := r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "web"})
	if err != nil || len(refs.GetRefs()) != 1 || refs.GetRefs()[0].GetCommit() != oci.GetCommit() {
		t.Errorf("got %v (%v)", refs, err)
	}
}

// TestArtifactsOfSources refuses charts, layers and refs where a repository has none, and names
// what an artifact lacks.
func TestArtifactsOfSources(t *testing.T) {
	t.Parallel()
	registry, redis, server := registrytest.Start(t, registrytest.Config{}), redistest.Start(t), gittest.New(t)
	counts := countRequests(t, registry)
	pushChart(t, registry, "1.0.0", "1.0.0")
	wasm := registry.Push(t, "team/web", "module", "application/vnd.wasm.config.v0+json",
		registrytest.Layer{MediaType: "application/wasm", Title: "m.wasm", Data: []byte("module")})
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a.yaml": "a: 1\n"})
	r := start(t, redis.URL(), t.TempDir())
	def := counts.definition()
	def.Immutable = true
	r.put(t, def)
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "web", ready)
	r.state(t, "demo", ready)
	resolve := func(src *typev1.Source) (*typev1.Snapshot, error) {
		resp, err := r.ResolveSnapshot(t.Context(), &gitcachev1.ResolveSnapshotRequest{Source: src})
		return resp.GetSnapshot(), err
	}
	for field, src := range map[string]*typev1.Source{
		"source.chart":                {Repository: "web", Chart: "web"},
		"source.layer":                {Repository: "demo", Layer: &typev1.ArtifactLayer{Copy: true}},
		"source.chart of Git":         {Repository: "demo", Chart: "web"},
		"source.layer with both":      {Repository: "web", Layer: &typev1.ArtifactLayer{Copy: true, Files: true}},
		"source.chart with a slash":   {Repository: "web", Chart: "a/b"},
		"source.layer without a type": {Repository: "web", Layer: &typev1.ArtifactLayer{MediaType: "wasm"}},
	} {
		_, err := resolve(src)
		name, _, _ := strings.Cut(field, " ")
		wantField(t, err, name)
	}
	for reason, src := range map[errorsv1.Reason]*typev1.Source{
		errorsv1.Reason_REASON_REF_NOT_FOUND:       source("web", "main", ""),
		errorsv1.Reason_REASON_CONTENT_UNSUPPORTED: atTag("module"),
		errorsv1.Reason_REASON_PATH_NOT_FOUND:      {Repository: "web", Path: "no/such"},
	} {
		_, err := resolve(src)
		wantReason(t, err, reason)
	}
	_, err := resolve(atTag("1.0.1"))
	wantReason(t, err, errorsv1.Reason_REASON_REF_NOT_FOUND)
	if !strings.Contains(err.Error(), "1.0.0") {
		t.Errorf("got %v, want the version that may be meant", err)
	}
	copied := atTag("module")
	copied.Layer = &typev1.ArtifactLayer{Copy: true}
	got, err := resolve(copied)
	if err != nil || got.GetCommit() != wasm || got.GetFileCount() != 1 {
		t.Fatalf("got %v (%v)", got, err)
	}
	_, stored, err := r.download(t, &gitcachev1.DownloadBundleRequest{Repository: "web", Digest: got.GetDigest(), Commit: wasm, Source: copied})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"m.wasm": "module"}, unpack(t, got.GetDigest(), stored)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	before := r.resolve(t, atTag("1.0.0"))
	pushChart(t, registry, "1.0.0", "1.0.0-other")
	r.refresh(t, "web")
	state := r.state(t, "web", func(s *gitcachev1.RepositoryState) bool { return s.GetProblem() != nil })
	if state.GetProblem().GetReason() != errorsv1.Reason_REASON_UPSTREAM_REPUBLISHED || !slices.Equal(state.GetHeldRefs(), []string{"refs/tags/1.0.0"}) {
		t.Errorf("got %v, want it reported that the tag was published again", state)
	}
	if after := r.resolve(t, atTag("1.0.0")); after.GetDigest() != before.GetDigest() {
		t.Errorf("got %v, want what it was first: %v", after, before)
	}
}

// TestSharedCredentialsOfRegistries mirrors with a credential that the file has for a registry.
func TestSharedCredentialsOfRegistries(t *testing.T) {
	t.Parallel()
	registry, redis := registrytest.Start(t, registrytest.Config{Username: "leat", Password: "shared"}), redistest.Start(t)
	counts := countRequests(t, registry)
	pushChart(t, registry, "1.0.0", "1.0.0")
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	text := "- urlPrefix: oci+http://" + counts.Listener.Addr().String() + "/team\n  credential: {basic: {username: leat, password: shared}, allowPlainHttp: true}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, redis.URL(), t.TempDir(), func(c *gitcache.Config) { c.CredentialsFile = path })
	r.put(t, counts.definition())
	r.state(t, "web", ready)
	if got := r.resolve(t, atTag("1.0.0")); got.GetFileCount() != 4 {
		t.Errorf("got %v", got)
	}
}
