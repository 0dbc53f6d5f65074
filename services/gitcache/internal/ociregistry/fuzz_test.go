// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// answers are a registry's answers. In the manifest, DIGEST and SIZE stand for the layer's, since
// other ones are refused before anything is read.
type answers struct {
	tags, manifest string
	layer          []byte
}

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	manifest := []byte(strings.NewReplacer("DIGEST", digestOf(a.layer), "SIZE", strconv.Itoa(len(a.layer))).Replace(a.manifest))
	switch {
	case strings.HasSuffix(r.URL.Path, "/tags/list"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(a.tags))
	case path.Base(path.Dir(r.URL.Path)) == "manifests":
		w.Header().Set("Content-Type", registrytest.ManifestType)
		w.Header().Set("Docker-Content-Digest", digestOf(manifest))
		w.Header().Set("Content-Length", strconv.Itoa(len(manifest)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(manifest)
		}
	case path.Base(path.Dir(r.URL.Path)) == "blobs":
		_, _ = w.Write(a.layer)
	}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// FuzzAnswers mirrors a registry that answers anything: lists of tags, manifests, and layers with
// the digests that these name. Every failure is one of the upstream or of the artifact, and
// mirrored content can be read within the limits.
func FuzzAnswers(f *testing.F) {
	manifest := func(layers string) string {
		return `{"schemaVersion":2,"mediaType":"` + registrytest.ManifestType + `","config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"DIGEST","size":SIZE},"layers":[` + layers + `]}`
	}
	const (
		tags  = `{"name":"team/web","tags":["1.0.0"]}`
		chart = `{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"DIGEST","size":SIZE}`
		plain = `{"mediaType":"application/vnd.example.tar","digest":"DIGEST","size":SIZE,"annotations":{"org.opencontainers.image.title":"a"}}`
	)
	packed := archive(f, map[string]string{"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "web/a": "x"})
	for _, list := range []string{tags, `{"tags":["1.0.0","2.0.0_b","../x",""]}`, "<html>", `{"tags":null}`, `{"tags":["` + strings.Repeat("x", 200) + `"]}`} {
		f.Add(list, manifest(chart), packed)
	}
	for _, text := range []string{manifest(""), manifest(chart + "," + plain), manifest(plain), manifest(`null`), "", "{", `{"manifests":[{}]}`, manifest(`{"size":-1}`)} {
		f.Add(tags, text, packed)
	}
	f.Add(tags, manifest(chart), []byte("x"))
	f.Add(tags, manifest(plain), []byte(nil))
	var current answers
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.ServeHTTP(w, r) }))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, tags, manifest string, layer []byte) {
		current = answers{tags: tags, manifest: manifest, layer: layer}
		s := newSubject(t, upstream.Definition{URL: "oci+http://" + server.Listener.Addr().String() + "/team/web"})
		if err := s.try(t.Context()); err != nil {
			wantTyped(t, err)
			return
		}
		const most = 3 // tags that are looked up
		for i, name := range s.have.Refs.Names(most) {
			tagged, ok := strings.CutPrefix(name, mirror.TagPrefix)
			if !ok || tagged == "" || strings.ContainsAny(tagged, "/ \x00") || strings.HasPrefix(tagged, ".") {
				t.Errorf("got the ref %q", name)
			}
			c, err := s.Pin(t.Context(), s.params(), []string{name})
			if err != nil {
				wantTyped(t, err)
				return
			}
			s.have = c
			ref, _ := c.Refs.Get(name)
			if i > 0 || ref.Object == "" {
				continue
			}
			id := artifact.ID{Digest: ref.Commit}
			if err := s.fill(t.Context(), id); err != nil {
				wantTyped(t, err)
				continue
			}
			total := 0
			for file, content := range s.files(t, id) {
				if file == "" || path.IsAbs(file) || path.Clean(file) != file || strings.HasPrefix(file, "../") {
					t.Errorf("got the file %q", file)
				}
				total += len(content)
			}
			if total > 1<<20 {
				t.Errorf("got files of %d bytes, more than the limit", total)
			}
		}
	})
}

// wantTyped expects a failure of the upstream or of the artifact.
func wantTyped(t *testing.T, err error) {
	t.Helper()
	_, isUpstream := errors.AsType[*mirror.UpstreamError](err)
	_, isArtifact := errors.AsType[*mirror.ArtifactError](err)
	if !isUpstream && !isArtifact {
		t.Errorf("got %T: %v, want an error of the upstream or the artifact", err, err)
	}
}
