// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
)

// pushImage pushes an image whose layers are not a chart, and far larger than its manifest.
func pushImage(t *testing.T, r *registrytest.Registry, tag string) string {
	t.Helper()
	layer := func(fill string) registrytest.Layer {
		return registrytest.Layer{
			MediaType: "application/vnd.oci.image.layer.v1.tar+gzip", Data: bytes.Repeat([]byte(fill+tag), 1<<20),
		}
	}
	return r.Push(t, "team/web", tag, "application/vnd.oci.image.config.v1+json", layer("base"), layer("app"))
}

// targets lists the refs below a prefix, and returns what each leads to. The digests of resolve are
// looked up first.
func (r *replica) targets(t *testing.T, prefix string, resolve ...string) map[string]string {
	t.Helper()
	resp, err := r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: "web", Prefix: prefix, Resolve: resolve})
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{}
	for _, ref := range resp.GetRefs() {
		targets[ref.GetName()] = ref.GetCommit()
	}
	return targets
}

// TestTagsAreLookedUpWithoutLayers looks up tags of images through a replica that does not own the
// repository: the registry sees one request for each tag, and none for a layer or for a known tag.
func TestTagsAreLookedUpWithoutLayers(t *testing.T) {
	t.Parallel()
	registry, redis := registrytest.Start(t, registrytest.Config{}), redistest.Start(t)
	counts := countRequests(t, registry)
	first, second := pushImage(t, registry, "1.0.0"), pushImage(t, registry, "1.1.0")
	replicas := []*replica{start(t, redis.URL(), t.TempDir()), start(t, redis.URL(), t.TempDir())}
	replicas[0].put(t, counts.definition())
	other := replicas[0]
	if replicas[0].state(t, "web", ready).GetOwner() == other.url {
		other = replicas[1]
	}
	other.state(t, "web", ready)
	counts.take()

	want := map[string]string{"refs/tags/1.0.0": "", "refs/tags/1.1.0": ""}
	if diff := cmp.Diff(want, other.targets(t, "")); diff != "" {
		t.Errorf("before a look-up (-want +got):\n%s", diff)
	}
	want["refs/tags/1.1.0"] = second
	for range 2 {
		if diff := cmp.Diff(want, other.targets(t, "refs/tags/", "refs/tags/1.1.0", "refs/tags/9.9.9")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want["refs/tags/1.0.0"] = first
	if diff := cmp.Diff(want, other.targets(t, "", "refs/tags/1.0.0", "refs/tags/1.1.0")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"HEAD manifests": 2}, counts.take()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestSecLookUpsOfTagsAreBounded names refs that a caller may not have looked up: too many, ones
// that are not tags, and ones of a Git repository. The registry, which is gone, is an error only
// where it has to be asked.
func TestSecLookUpsOfTagsAreBounded(t *testing.T) {
	t.Parallel()
	registry, git, redis := registrytest.Start(t, registrytest.Config{}), gittest.New(t), redistest.Start(t)
	counts := countRequests(t, registry)
	var tags []string
	for i := range 11 {
		tags = append(tags, fmt.Sprintf("refs/tags/1.%d.0", i))
	}
	pushImage(t, registry, "1.0.0")
	r := start(t, redis.URL(), t.TempDir())
	r.put(t, counts.definition())
	r.state(t, "web", ready)
	list := func(name string, resolve ...string) error {
		_, err := r.ListRefs(t.Context(), &gitcachev1.ListRefsRequest{Repository: name, Resolve: resolve})
		return err
	}
	wantField(t, list("web", tags...), "resolve")
	wantField(t, list("web", tags[0], "refs/digests/"+tags[0]), "resolve[1]")
	wantField(t, list("web", ""), "resolve[0]")

	repo := git.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a.yaml": "a: 1\n"})
	r.put(t, definition("demo", repo.URL()))
	r.state(t, "demo", ready)
	if err := list("demo", "refs/tags/1.0.0"); err != nil {
		t.Errorf("got %v for a repository of Git, want the look-up ignored", err)
	}
	counts.Close()
	if err := list("web", "refs/tags/2.0.0"); err != nil {
		t.Errorf("got %v for a tag that is not listed", err)
	}
	wantReason(t, list("web", "refs/tags/1.0.0"), errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE)
}
