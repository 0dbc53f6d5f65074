// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// These tests talk to the distribution project's registry (see package registrytest), through a front
// that counts requests and breaks answers.
package ociregistry_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
)

const tagsList, head = "GET /v2/team/web/tags/list", "HEAD /v2/team/web/manifests/"

// TestFollowsARegistry asks for a password over TLS with a certificate of its own.
func TestFollowsARegistry(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{Username: "leat", Password: "open sesame"})
	f := newFront(t, r.Addr, true)
	first := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	r.Push(t, "team/web", "1.1.0_b7", registrytest.ChartType, chart(t, "1.1.0+b7"))
	second := r.Push(t, "team/web", "1.2.0", registrytest.ChartType, chart(t, "1.2.0"))
	s := newSubject(t, upstream.Definition{URL: f.url("team/web"), CAPEM: f.caPEM(), Credential: upstream.Credential{
		Method: upstream.MethodBasic, Username: "leat", Password: "open sesame",
	}})
	s.fetch(t)
	if names := s.have.Refs.Names(9); !slices.Equal(names, []string{"refs/tags/1.0.0", "refs/tags/1.1.0_b7", "refs/tags/1.2.0"}) {
		t.Fatalf("got %v", names)
	}
	f.take()
	if got := s.resolve(t, mirror.Selector{Kind: mirror.SelectSemver, Value: "1.x"}); got != second {
		t.Errorf("got %s for a range, want %s", got, second)
	}
	if got := s.resolve(t, tag("1.0.0")); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
	if requests := f.take(); !slices.Equal(requests, []string{head + "1.2.0", head + "1.0.0"}) {
		t.Errorf("got %v, want one request for each tag that is named", requests)
	}
	if got := s.resolve(t, tag("1.1.0+b7")); got == "" {
		t.Error("no tag for a version with a plus sign")
	}
	want := map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.2.0\n", "templates/a.yaml": "a: 1\n"}
	f.take()
	if diff := cmp.Diff(want, s.files(t, artifact.ID{Digest: second})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if requests := f.take(); len(requests) != 2 {
		t.Errorf("got %v, want the manifest and the layer", requests)
	}
	if err := s.fill(t.Context(), artifact.ID{Digest: second}); err != nil || len(f.take()) != 0 {
		t.Errorf("got %v, or requests for what is there", err)
	}

	before := s.have
	s.fetch(t)
	requests := f.take()
	slices.Sort(requests)
	if want := []string{tagsList, head + "1.0.0", head + "1.1.0_b7", head + "1.2.0"}; !slices.Equal(requests, want) {
		t.Errorf("got the poll %v, want %v", requests, want)
	}
	if !s.have.FreshAt.After(before.FreshAt) || len(before.Changed(s.have)) != 0 || !s.have.ChangedAt.Equal(before.ChangedAt) {
		t.Errorf("got %+v, want nothing changed", s.have)
	}

	before = s.have
	moved := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0-again"))
	third := r.Push(t, "team/web", "1.3.0", registrytest.ChartType, chart(t, "1.3.0"))
	s.fetch(t)
	if changed := before.Changed(s.have); !slices.Equal(changed, []string{"refs/tags/1.0.0", "refs/tags/1.3.0"}) {
		t.Errorf("got %v changed", changed)
	}
	if got := s.resolve(t, tag("1.0.0")); got != moved {
		t.Errorf("got %s, want the tag followed to %s", got, moved)
	}
	if got := s.resolve(t, mirror.Selector{}); got != third {
		t.Errorf("got HEAD %s, want the highest version %s", got, third)
	}
	r.Delete(t, "team/web", moved)
	s.fetch(t)
	if _, ok := s.have.Refs.Get("refs/tags/1.0.0"); ok {
		t.Error("a deleted tag is still there")
	}

	f.Close()
	err := wantReason(t, s.try(t.Context()), reason.UpstreamUnreachable)
	if strings.Contains(err.Error(), "sesame") {
		t.Errorf("got %v, want no credential in it", err)
	}
	if got := s.resolve(t, tag("1.2.0")); got != second {
		t.Errorf("got %s without the registry, want %s", got, second)
	}
	if diff := cmp.Diff(want, s.files(t, artifact.ID{Digest: second})); diff != "" {
		t.Errorf("without the registry (-want +got):\n%s", diff)
	}
}

// TestImmutable still delivers the first content of a tag, also when the tag was deleted in
// between.
func TestImmutable(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web"), Immutable: true})
	first := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	other := r.Push(t, "team/web", "2.0.0", registrytest.ChartType, chart(t, "2.0.0"))
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	second := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0-other"))
	s.fetch(t)
	ref, _ := s.have.Refs.Get("refs/tags/1.0.0")
	if ref.Commit != second || ref.Held == "" || s.resolve(t, tag("1.0.0")) != first {
		t.Errorf("got %+v, want it held back", ref)
	}
	r.Delete(t, "team/web", second)
	s.fetch(t)
	r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0-third"))
	s.fetch(t)
	if got := s.resolve(t, tag("1.0.0")); got != first {
		t.Errorf("got %s of a tag that was deleted and pushed again, want %s", got, first)
	}
	s.def.Immutable = false
	s.fetch(t)
	if ref, _ := s.have.Refs.Get("refs/tags/1.0.0"); ref.Held != "" || s.resolve(t, tag("1.0.0")) == first {
		t.Errorf("got %+v, want it followed", ref)
	}
	if got := s.resolve(t, tag("2.0.0")); got != other {
		t.Errorf("got %s, want %s", got, other)
	}
}

// TestPinsEnd looks up no more tags that were not asked for since long, and reports that as a
// change.
func TestPinsEnd(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	s.now = s.now.Add(ociregistry.PinnedFor + time.Hour)
	before := s.have
	f.take()
	s.fetch(t)
	if requests := f.take(); !slices.Equal(requests, []string{tagsList}) {
		t.Errorf("got the poll %v, want the list alone", requests)
	}
	if changed := before.Changed(s.have); !slices.Equal(changed, []string{"HEAD", "refs/tags/1.0.0"}) && !slices.Equal(changed, []string{"refs/tags/1.0.0"}) {
		t.Errorf("got %v changed, want whoever follows it to ask again", changed)
	}
	if got := s.resolve(t, tag("1.0.0")); got != digest {
		t.Errorf("got %s, want %s", got, digest)
	}
	f.take()
	s.fetch(t)
	if requests := f.take(); len(requests) != 2 {
		t.Errorf("got the poll %v, want it to look at the tag again", requests)
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	layer := func(mediaType, title string, data []byte) registrytest.Layer {
		return registrytest.Layer{MediaType: mediaType, Title: title, Data: data}
	}
	const flux, oci, wasm = "application/vnd.cncf.flux.content.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+gzip", "application/wasm"
	manifests := archive(t, map[string]string{"a.yaml": "a: 1\n", "b/c.yaml": "c: 1\n"})
	others := archive(t, map[string]string{"d.yaml": "d: 1\n"})
	all := map[string]string{"a.yaml": "a: 1\n", "b/c.yaml": "c: 1\n"}
	for name, test := range map[string]struct {
		layers []registrytest.Layer
		want   artifact.Layer
		files  map[string]string // nil: unsupported
		words  string
	}{
		"one tar":              {[]registrytest.Layer{layer(flux, "", manifests)}, artifact.Layer{}, all, ""},
		"one tar beside wasm":  {[]registrytest.Layer{layer(wasm, "m.wasm", []byte("w")), layer(oci, "", manifests)}, artifact.Layer{}, all, ""},
		"chart with others":    {[]registrytest.Layer{layer(oci, "", manifests), chart(t, "1")}, artifact.Layer{}, map[string]string{"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1\n", "templates/a.yaml": "a: 1\n"}, ""},
		"several tars":         {[]registrytest.Layer{layer(oci, "", manifests), layer(flux, "", others)}, artifact.Layer{}, nil, flux},
		"chosen":               {[]registrytest.Layer{layer(oci, "", manifests), layer(flux, "", others)}, artifact.Layer{MediaType: flux}, map[string]string{"d.yaml": "d: 1\n"}, ""},
		"first of a type":      {[]registrytest.Layer{layer(oci, "", manifests), layer(oci, "", others)}, artifact.Layer{MediaType: oci}, all, ""},
		"no such type":         {[]registrytest.Layer{layer(oci, "", manifests)}, artifact.Layer{MediaType: wasm}, nil, oci},
		"no tar":               {[]registrytest.Layer{layer(wasm, "m.wasm", []byte("w"))}, artifact.Layer{}, nil, "layer.copy"},
		"copied":               {[]registrytest.Layer{layer(wasm, "m/x.wasm", []byte("w"))}, artifact.Layer{Copy: true}, map[string]string{"m/x.wasm": "w"}, ""},
		"copied of a type":     {[]registrytest.Layer{layer(oci, "", manifests), layer(wasm, "x.wasm", []byte("w"))}, artifact.Layer{MediaType: wasm, Copy: true}, map[string]string{"x.wasm": "w"}, ""},
		"copied without title": {[]registrytest.Layer{layer(wasm, "", []byte("w"))}, artifact.Layer{Copy: true}, nil, "title"},
		"title that climbs":    {[]registrytest.Layer{layer(wasm, "../x", []byte("w"))}, artifact.Layer{Copy: true}, nil, "../x"},
		"files":                {[]registrytest.Layer{layer(oci, "", manifests), layer(wasm, "x.wasm", []byte("w")), layer("text/yaml", "y.yaml", []byte("y"))}, artifact.Layer{Files: true}, map[string]string{"x.wasm": "w", "y.yaml": "y"}, ""},
		"files of one name":    {[]registrytest.Layer{layer(wasm, "x", []byte("w")), layer("text/yaml", "x", []byte("y"))}, artifact.Layer{Files: true}, nil, "twice"},
		"no files":             {[]registrytest.Layer{layer(oci, "", manifests)}, artifact.Layer{Files: true}, nil, "title"},
		"no layers":            {nil, artifact.Layer{}, nil, "none at all"},
		"no gzip":              {[]registrytest.Layer{layer(oci, "", []byte("hello"))}, artifact.Layer{}, nil, "unpacked"},
	} {
		tagName := strings.ReplaceAll(name, " ", "-")
		digest := r.Push(t, "team/web", tagName, "application/vnd.unknown.config.v1+json", test.layers...)
		s.fetch(t)
		id := artifact.ID{Digest: digest, Layer: test.want}
		if got := s.resolve(t, tag(tagName)); got != digest {
			t.Errorf("%s: got %s, want %s", name, got, digest)
		}
		if test.files != nil {
			if diff := cmp.Diff(test.files, s.files(t, id)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			continue
		}
		bad, ok := errors.AsType[*mirror.ArtifactError](s.fill(t.Context(), id))
		if !ok || bad.Reason != reason.ContentUnsupported || !strings.Contains(bad.Message, test.words) {
			t.Errorf("%s: got %v, want it unsupported, with %q", name, bad, test.words)
		}
		f.take()
		if err := s.fill(t.Context(), id); err == nil || len(f.take()) != 0 {
			t.Errorf("%s: it was downloaded again", name)
		}
	}
	index := r.PushManifest(t, "team/web", "index", registrytest.IndexType, map[string]any{
		"schemaVersion": 2, "mediaType": registrytest.IndexType, "manifests": []any{},
	})
	if bad, ok := errors.AsType[*mirror.ArtifactError](s.fill(t.Context(), artifact.ID{Digest: index})); !ok || bad.Reason != reason.ContentUnsupported {
		t.Errorf("got %v, want an index unsupported", bad)
	}
	unknown := artifact.ID{Digest: strings.Repeat("12", 32)}
	if bad, ok := errors.AsType[*mirror.ArtifactError](s.fill(t.Context(), unknown)); !ok || bad.Reason != reason.RefNotFound {
		t.Errorf("got %v, want no such artifact", bad)
	}
}

// TestRegistriesThatAreBusy obeys 429 and Retry-After, at every kind of request.
func TestRegistriesThatAreBusy(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	for _, part := range []string{"/tags/list", "/manifests/1.0.0", "/manifests/sha256:", "/blobs/"} {
		f := newFront(t, r.Addr, false)
		s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
		f.fail(func(w http.ResponseWriter, r *http.Request) bool {
			isMeant := strings.Contains(r.URL.Path, part)
			if isMeant {
				w.Header().Set("Retry-After", strconv.Itoa(120))
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return isMeant
		})
		err := s.try(t.Context())
		if err == nil {
			_, err = s.Pin(t.Context(), s.params(), []string{"refs/tags/1.0.0"})
		}
		if err == nil {
			err = s.fill(t.Context(), artifact.ID{Digest: digest})
		}
		if failed := wantReason(t, err, reason.UpstreamRateLimited); failed.RetryAfter != 2*time.Minute {
			t.Errorf("%s: got %s, want the time that it asks for", part, failed.RetryAfter)
		}
		f.take()
		if _, ok := errors.AsType[*mirror.QuietError](s.try(t.Context())); !ok || len(f.take()) != 0 {
			t.Errorf("%s: the registry was not left alone", part)
		}
	}
}

// TestBrokenAnswers keeps nothing of what does not arrive as it was announced, and takes it later.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	digest := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	f := newFront(t, r.Addr, false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	s.fetch(t)
	s.resolve(t, tag("1.0.0"))
	id := artifact.ID{Digest: digest}
	instead := func(part, mediaType, body string, cut bool) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			w.Header().Set("Content-Type", mediaType)
			if cut {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)+100))
			}
			_, _ = w.Write([]byte(body))
			if cut {
				panic(http.ErrAbortHandler)
			}
			return true
		}
	}
	layer := len(chart(t, "1.0.0").Data)
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"manifest of another": instead("/manifests/", registrytest.ManifestType, `{"schemaVersion":2}`, false),
		"cut manifest":        instead("/manifests/", registrytest.ManifestType, `{"schemaVersion":2}`, true),
		"layer of another":    instead("/blobs/", "application/octet-stream", strings.Repeat("x", layer), false),
		"short layer":         instead("/blobs/", "application/octet-stream", "x", false),
		"cut layer":           instead("/blobs/", "application/octet-stream", "x", true),
		"web page":            instead("/manifests/", "text/html", "<html>", false),
		"server in trouble":   func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true },
		"nothing at all":      func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"redirects in a circle": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
			return true
		},
	} {
		f.fail(fault)
		err := s.fill(t.Context(), id)
		failed, ok := errors.AsType[*mirror.UpstreamError](err)
		if !ok || (failed.Reason != reason.UpstreamProtocol && failed.Reason != reason.UpstreamUnreachable) || s.store.Has(s.def.UID, id) {
			t.Errorf("%s: got %v, want a failure of the upstream", name, err)
		}
	}
	for name, body := range map[string]string{
		"page":               "<html>",
		"no list":            `{"tags": 5}`,
		"tags that are none": `{"tags": ["../x", "a b", "` + strings.Repeat("x", 200) + `"]}`,
	} {
		f.fail(instead("/tags/list", "application/json", body, false))
		err := s.try(t.Context())
		if name == "tags that are none" {
			if err != nil || len(s.have.Refs) != 0 {
				t.Errorf("%s: got %v, %v, want them left out", name, s.have.Refs, err)
			}
			continue
		}
		wantReason(t, err, reason.UpstreamProtocol)
	}
	f.fail(nil)
	s.fetch(t)
	if got := s.files(t, id); len(got) != 2 {
		t.Errorf("got %v once the registry is well", got)
	}
}

// TestSecEndlessRegistries are cut off.
func TestSecEndlessRegistries(t *testing.T) {
	t.Parallel()
	f := newFront(t, "127.0.0.1:1", false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	page := 0
	many := func(tags func(page int) string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			page++
			w.Header().Set("Link", fmt.Sprintf(`</v2/team/web/tags/list?last=%d>; rel="next"`, page))
			_, _ = fmt.Fprintf(w, `{"tags": [%s]}`, tags(page))
			return true
		}
	}
	f.fail(many(func(int) string { return "" }))
	s.def.Version++
	if err := wantReason(t, s.try(t.Context()), reason.UpstreamProtocol); !strings.Contains(err.Message, "more than 50000 tags") || page > 1001 {
		t.Errorf("got %v after %d pages", err, page)
	}
	page = 0
	f.fail(many(func(page int) string {
		names := make([]string, 2000)
		for i := range names {
			names[i] = fmt.Sprintf("%q", fmt.Sprintf("t%d-%d", page, i))
		}
		return strings.Join(names, ",")
	}))
	if err := wantReason(t, s.try(t.Context()), reason.UpstreamProtocol); page > 27 {
		t.Errorf("got %v after %d pages", err, page)
	}
	f.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"tags": ["`))
		for range 200 {
			if _, err := w.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
				break
			}
		}
		return true
	})
	wantReason(t, s.try(t.Context()), reason.UpstreamProtocol)
}

func TestNothingWithoutTheRight(t *testing.T) {
	t.Parallel()
	f := newFront(t, "127.0.0.1:1", false)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	gone := errors.New("lease lost")
	p := s.params()
	p.Guard = func() error { return gone }
	p.Have = mirror.Content{Refs: mirror.Refs{{Name: "refs/tags/1"}}}
	_, errFetch := s.Fetch(t.Context(), p)
	_, errPin := s.Pin(t.Context(), p, []string{"refs/tags/1"})
	_, errFill := s.Fill(t.Context(), p, []string{strings.Repeat("12", 32)})
	if !errors.Is(errFetch, gone) || !errors.Is(errPin, gone) || !errors.Is(errFill, gone) || len(f.take()) != 0 {
		t.Errorf("got %v, %v, %v, want the lease's error and no request", errFetch, errPin, errFill)
	}
}
