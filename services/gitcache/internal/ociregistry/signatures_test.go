// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/charttest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/internal/testkit/signtest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/ociregistry"
)

const (
	provenanceType = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	referrersPath  = "/v2/team/web/referrers/sha256:"
)

// newSignedSubject mirrors team/web with signatures by the keys.
func newSignedSubject(t *testing.T, f *front, v upstream.Verification) *subject {
	t.Helper()
	v.Mode = upstream.ModeArtifact
	return newSubject(t, upstream.Definition{URL: f.url("team/web"), Verification: v})
}

// wantTag resolves a tag, and wants what it delivers: a digest, or nothing with words of the
// reason.
func (s *subject) wantTag(t *testing.T, name, want string, words ...string) {
	t.Helper()
	selector := mirror.Selector{Kind: mirror.SelectTag, Value: name, Within: mirror.TagPrefix}
	got, err := s.have.Resolve(selector)
	if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
		if s.have, err = s.Pin(t.Context(), s.params(), unpinned.Names); err != nil {
			t.Fatal(err)
		}
		got, err = s.have.Resolve(selector)
	}
	if got != want || (want == "") != (err != nil) {
		t.Errorf("%s: got %q (%v), want %q", name, got, err, want)
	}
	ref, _ := s.have.Refs.Get(mirror.TagPrefix + name)
	for _, word := range words {
		if !strings.Contains(ref.Held, word) {
			t.Errorf("%s: got it held for %q, want that to have %q", name, ref.Held, word)
		}
	}
}

// TestSignaturesByTag delivers what a listed key signed under cosign's tag, once it has asked for that.
func TestSignaturesByTag(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	mine, other := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.Ed25519)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: mine.PublicKey(t)})
	push := func(tag string) string { return r.Push(t, "team/web", tag, registrytest.ChartType, chart(t, tag)) }
	signed, foreign, bare := push("1.0.0"), push("2.0.0"), push("3.0.0")
	mine.PushTag(t, r, "team/web", signed)
	other.PushTag(t, r, "team/web", foreign)
	s.fetch(t)
	if s.have.Policy == "" {
		t.Error("got no policy, want the content to say which one it passed")
	}
	f.take()
	s.wantTag(t, "1.0.0", signed)
	if requests := f.take(); len(requests) != 3 {
		t.Errorf("got %q, want the tag, its signature and the payload", requests)
	}
	s.wantTag(t, "2.0.0", "", "by the key ", "it is not signed by")
	s.wantTag(t, "3.0.0", "", "has no cosign signature by the key ")
	s.wantTag(t, "1.0.0", signed)
	f.take()
	before := s.have
	s.now = s.now.Add(time.Minute)
	s.fetch(t) // the good one is not asked about again
	for _, request := range f.take() {
		if strings.Contains(request, signed) {
			t.Errorf("got %q, want nothing about what is signed", request)
		}
	}
	if changed := before.Changed(s.have); len(changed) != 0 {
		t.Errorf("got %q changed, want nothing", changed)
	}

	// The signature arrives: the next poll finds it, whenever the next question would be due.
	s.now = s.now.Add(time.Hour)
	s.fetch(t)
	s.now = s.now.Add(time.Second)
	mine.PushTag(t, r, "team/web", bare)
	before = s.have
	s.fetch(t)
	if changed := before.Changed(s.have); !slices.Contains(changed, "refs/tags/3.0.0") {
		t.Errorf("got %q changed, want the tag that has been signed", changed)
	}
	s.wantTag(t, "3.0.0", bare)

	// A signed tag moves to an unsigned artifact, and on to a signed one.
	moved := push("1.0.0")
	if moved == signed {
		moved = r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0-moved"))
	}
	s.fetch(t)
	s.wantTag(t, "1.0.0", signed, "has no cosign signature")
	mine.PushTag(t, r, "team/web", moved)
	s.fetch(t)
	s.wantTag(t, "1.0.0", moved)
}

// TestRequestedFetchesAskAgain replaces a bad signature by a good one under the same tag, soon
// after the question. A poll waits for its time. A fetch that the registry's webhook requested asks
// at once: there may be no other one for a day.
func TestRequestedFetchesAskAgain(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	mine, stranger := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: mine.PublicKey(t)})
	pushed := r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, "1.0.0"))
	s.fetch(t)
	s.wantTag(t, "1.0.0", "", "has no cosign signature")
	s.now = s.now.Add(10 * time.Second)
	stranger.PushTag(t, r, "team/web", pushed)
	s.fetch(t)
	s.wantTag(t, "1.0.0", "", "it is not signed by")

	s.now = s.now.Add(time.Second)
	mine.PushTag(t, r, "team/web", pushed)
	s.fetch(t)
	s.wantTag(t, "1.0.0", "", "it is not signed by")
	p := s.params()
	p.IsRequested = true
	before := s.have
	var err error
	if s.have, err = s.Fetch(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if changed := before.Changed(s.have); !slices.Contains(changed, "refs/tags/1.0.0") {
		t.Errorf("got %q changed, want the tag that has been signed", changed)
	}
	s.wantTag(t, "1.0.0", pushed)
}

// TestSignaturesByReferrer finds signatures in both lists of referrers, and all forms of them.
func TestSignaturesByReferrer(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	key, other := signtest.NewKey(t, signtest.P384), signtest.NewKey(t, signtest.P384)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: key.PublicKey(t)})
	push := func(tag string) string { return r.Push(t, "team/web", tag, registrytest.ChartType, chart(t, tag)) }
	refer := func(digest string, bundle []byte) map[string]any {
		return r.PushReferrer(t, "team/web", digest, signtest.BundleType, registrytest.Layer{MediaType: signtest.BundleType, Data: bundle})
	}
	statement, message, simple, wrong := push("1.0.0"), push("2.0.0"), push("3.0.0"), push("4.0.0")
	r.PushReferrers(t, "team/web", statement,
		refer(statement, other.StatementBundle(t, signtest.Statement(statement))), refer(statement, key.StatementBundle(t, signtest.Statement(statement))))
	manifest := r.Manifest(t, "team/web", message)
	r.PushReferrers(t, "team/web", message, refer(message, key.MessageBundle(t, manifest)))
	r.PushReferrers(t, "team/web", simple, r.PushReferrer(t, "team/web", simple, "application/vnd.dev.cosign.artifact.sig.v1+json",
		key.Layer(t, signtest.Payload(simple))))
	r.PushReferrers(t, "team/web", wrong, refer(wrong, key.StatementBundle(t, signtest.Statement(statement))),
		refer(wrong, key.StatementBundle(t, []byte(strings.Replace(string(signtest.Statement(wrong)), "cosign/sign/v1", "cosign/vuln/v1", 1)))))
	s.fetch(t)
	s.wantTag(t, "1.0.0", statement)
	s.wantTag(t, "2.0.0", message)
	s.wantTag(t, "3.0.0", simple)
	s.wantTag(t, "4.0.0", "", "among 2 signatures", "vuln")

	// A registry that has the API of referrers answers by itself.
	byAPI := push("5.0.0")
	listed := refer(byAPI, key.StatementBundle(t, signtest.Statement(byAPI)))
	f.fail(func(w http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != referrersPath+byAPI {
			return false
		}
		w.Header().Set("Content-Type", registrytest.IndexType)
		_ = json.NewEncoder(w).Encode(map[string]any{"schemaVersion": 2, "mediaType": registrytest.IndexType, "manifests": []any{listed}})
		return true
	})
	s.fetch(t)
	s.wantTag(t, "5.0.0", byAPI)
}

// TestSignedDigests delivers a digest without a tag only if it is signed.
func TestSignedDigests(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	key := signtest.NewKey(t, signtest.P256)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: key.PublicKey(t)})
	signed := r.Push(t, "team/web", "latest", registrytest.ChartType, chart(t, "1.0.0"))
	bare := r.Push(t, "team/web", "latest", registrytest.ChartType, chart(t, "2.0.0"))
	r.Push(t, "team/web", "latest", registrytest.ChartType, chart(t, "3.0.0"))
	key.PushTag(t, r, "team/web", signed)
	s.fetch(t)
	resolve := func(digest string) (string, error) {
		selector := mirror.Selector{Kind: mirror.SelectCommit, Value: digest, Within: mirror.TagPrefix}
		got, err := s.have.Resolve(selector)
		if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
			if s.have, err = s.Pin(t.Context(), s.params(), unpinned.Names); err != nil {
				t.Fatal(err)
			}
			got, err = s.have.Resolve(selector)
		}
		return got, err
	}
	check := func() {
		t.Helper()
		if got, err := resolve(signed); got != signed || err != nil {
			t.Errorf("got %q (%v), want the signed digest", got, err)
		}
		_, err := resolve(bare)
		if rejected, ok := errors.AsType[*mirror.RejectedError](err); !ok || !strings.Contains(rejected.Why, "has no cosign signature") {
			t.Errorf("got %v, want it rejected", err)
		}
	}
	check()
	s.fetch(t)
	f.take()
	check()
	if requests := f.take(); len(requests) != 0 {
		t.Errorf("got %q, want nothing asked again", requests)
	}
	s.now = s.now.Add(ociregistry.PinnedFor + time.Hour)
	s.fetch(t)
	if _, ok := s.have.Refs.Get(mirror.DigestPrefix + signed); ok {
		t.Error("got the digest's ref after a month, want it forgotten")
	}
	check()
}

// TestProvenanceInRegistries verifies the file that `helm push` puts beside a chart.
func TestProvenanceInRegistries(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	signer, other := signtest.NewChartSigner(t), signtest.NewChartSigner(t)
	s := newSignedSubject(t, f, upstream.Verification{
		ProvenanceKeys: signer.PublicKey(t), CosignKeys: signtest.NewKey(t, signtest.P256).PublicKey(t),
	})
	push := func(tag, name, version string, by *signtest.ChartSigner) string {
		archive := charttest.Pack(t, name, charttest.Files(name, version, "hello"))
		layers := []registrytest.Layer{{MediaType: registrytest.ChartLayerType, Data: archive}}
		if by != nil {
			layers = append(layers, registrytest.Layer{MediaType: provenanceType, Data: by.Sign(t, name, version, archive)})
		}
		return r.Push(t, "team/web", tag, registrytest.ChartType, layers...)
	}
	good, latest := push("1.0.0_b1", "web", "1.0.0+b1", signer), push("latest", "web", "1.1.0", signer)
	push("2.0.0", "web", "2.0.0", nil)
	push("3.0.0", "web", "3.0.0", other)
	push("4.0.0", "db", "4.0.0", signer)
	push("5.0.0", "web", "1.0.0+b1", signer)
	s.fetch(t)
	s.wantTag(t, "1.0.0_b1", good)
	s.wantTag(t, "latest", latest)
	s.wantTag(t, "2.0.0", "", "has no cosign signature", "no provenance file by a key of provenance_keys")
	s.wantTag(t, "3.0.0", "", "may not sign here")
	s.wantTag(t, "4.0.0", "", `of the chart "db"`)
	s.wantTag(t, "5.0.0", "", `signed as version "1.0.0+b1"`)
}

// TestVerificationChanges asks again under other keys.
func TestVerificationChanges(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	one, two := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	s := newSubject(t, upstream.Definition{URL: f.url("team/web")})
	first := r.Push(t, "team/web", "latest", registrytest.ChartType, chart(t, "1.0.0"))
	one.PushTag(t, r, "team/web", first)
	s.fetch(t)
	s.wantTag(t, "latest", first)
	s.def.Verification = upstream.Verification{Mode: upstream.ModeArtifact, CosignKeys: one.PublicKey(t)}
	if c, err := s.Pin(t.Context(), s.params(), []string{"refs/tags/latest"}); err != nil || c.Policy != "" {
		t.Errorf("got %+v (%v), want nothing done before the refs are of the policy", c, err)
	}
	s.fetch(t)
	s.wantTag(t, "latest", first)
	second := r.Push(t, "team/web", "latest", registrytest.ChartType, chart(t, "2.0.0"))
	s.fetch(t)
	s.wantTag(t, "latest", first, "has no cosign signature")
	s.def.Verification.CosignKeys += two.PublicKey(t) // what was good stays so
	s.fetch(t)
	s.wantTag(t, "latest", first, "one of the keys")
	s.def.Verification.CosignKeys = two.PublicKey(t)
	s.fetch(t)
	s.wantTag(t, "latest", "", "has no cosign signature")
	s.def.Verification = upstream.Verification{}
	s.fetch(t)
	s.wantTag(t, "latest", second)
	if s.have.Policy != "" {
		t.Errorf("got the policy %q, want none", s.have.Policy)
	}
}

// TestImmutableSignedTags hold back other content, but not for the sake of what was never delivered.
func TestImmutableSignedTags(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	key := signtest.NewKey(t, signtest.P256)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: key.PublicKey(t)})
	s.def.Immutable = true
	push := func(text string) string {
		return r.Push(t, "team/web", "1.0.0", registrytest.ChartType, chart(t, text))
	}
	push("unsigned")
	s.fetch(t)
	s.wantTag(t, "1.0.0", "", "has no cosign signature")
	first := push("signed")
	key.PushTag(t, r, "team/web", first)
	s.fetch(t)
	s.wantTag(t, "1.0.0", first)
	second := push("signed, too")
	key.PushTag(t, r, "team/web", second)
	s.fetch(t)
	s.wantTag(t, "1.0.0", first, mirror.Republished)
}

// TestSecHostileSignatures bounds the reading of signatures, and accepts no false one.
func TestSecHostileSignatures(t *testing.T) {
	t.Parallel()
	r := registrytest.Start(t, registrytest.Config{})
	f := newFront(t, r.Addr, false)
	key, other := signtest.NewKey(t, signtest.P256), signtest.NewKey(t, signtest.P256)
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: key.PublicKey(t)})
	number := 0
	push := func() (tag, digest string) {
		number++
		tag = fmt.Sprintf("1.0.%d", number)
		return tag, r.Push(t, "team/web", tag, registrytest.ChartType, chart(t, tag))
	}
	sign := func(digest string, layers ...registrytest.Layer) {
		r.Push(t, "team/web", "sha256-"+digest+".sig", "application/vnd.oci.image.config.v1+json", layers...)
	}
	check := func(name string, prepare func(digest string), words ...string) {
		t.Helper()
		tag, digest := push()
		prepare(digest)
		s.fetch(t)
		f.take()
		s.wantTag(t, tag, "", words...)
		if requests := f.take(); len(requests) > 85 {
			t.Errorf("%s: got %d requests", name, len(requests))
		}
	}
	check("the signature of another artifact", func(digest string) {
		sign(digest, key.Layer(t, signtest.Payload(strings.Repeat("0", 64))))
	}, "was made for")
	check("a replaced payload", func(digest string) {
		layer := key.Layer(t, signtest.Payload(strings.Repeat("0", 64)))
		layer.Data = signtest.Payload(digest)
		sign(digest, layer)
	}, "is not signed by")
	check("no base64", func(digest string) {
		layer := key.Layer(t, signtest.Payload(digest))
		layer.Annotations = map[string]string{"dev.cosignproject.cosign/signature": "***"}
		sign(digest, layer)
	}, "not base64")
	check("a huge payload", func(digest string) {
		layer := key.Layer(t, append(signtest.Payload(digest), strings.Repeat(" ", 300<<10)...))
		sign(digest, layer)
	}, "more than 262144 bytes")
	check("too many signatures", func(digest string) {
		var layers []registrytest.Layer
		for range 40 {
			layers = append(layers, other.Layer(t, signtest.Payload(digest)))
		}
		sign(digest, append(layers, key.Layer(t, signtest.Payload(digest)))...)
	}, "more than 32 signatures")
	check("another media type", func(digest string) {
		layer := key.Layer(t, signtest.Payload(digest))
		layer.MediaType = "text/plain"
		sign(digest, layer)
	}, "has no cosign signature")
	check("an index instead of signatures", func(digest string) {
		r.PushManifest(t, "team/web", "sha256-"+digest+".sig", registrytest.IndexType, map[string]any{
			"schemaVersion": 2, "mediaType": registrytest.IndexType, "manifests": []any{},
		})
	})

	intercept := func(part string, answer func(w http.ResponseWriter)) {
		f.fail(func(w http.ResponseWriter, req *http.Request) bool {
			if !strings.Contains(req.URL.Path, part) {
				return false
			}
			answer(w)
			return true
		})
	}
	check("endless referrers", func(digest string) {
		page := 0
		intercept(referrersPath+digest, func(w http.ResponseWriter) {
			page++
			w.Header().Set("Content-Type", registrytest.IndexType)
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next"`, referrersPath, digest, page))
			_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[]}`)
		})
	}, "more than")
	check("a thousand referrers", func(digest string) {
		entry := fmt.Sprintf(`{"mediaType":%q,"digest":"sha256:%s","size":10,"artifactType":%q}`, registrytest.ManifestType, strings.Repeat("1", 64), signtest.BundleType)
		intercept(referrersPath+digest, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", registrytest.IndexType)
			_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[`+strings.Repeat(entry+",", 999)+entry+`]}`)
		})
	}, "more than")
	check("a list that is none", func(digest string) {
		intercept(referrersPath+digest, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", registrytest.IndexType)
			_, _ = io.WriteString(w, "<html>")
		})
	}, "cannot be read")
	check("a manifest without end", func(digest string) {
		intercept("/manifests/sha256-"+digest+".sig", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", registrytest.ManifestType)
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("1", 64))
			for range 64 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
					break
				}
			}
		})
	})
	f.fail(nil)

	// A registry that does not answer proves nothing about signatures.
	tag, digest := push()
	key.PushTag(t, r, "team/web", digest)
	s.fetch(t)
	intercept("/manifests/sha256-"+digest+".sig", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
	_, err := s.Pin(t.Context(), s.params(), []string{mirror.TagPrefix + tag})
	wantReason(t, err, reason.UpstreamUnreachable)
	f.fail(nil)
	s.wantTag(t, tag, digest)
}

// TestSecDigestsAreBounded forgets the digests that were named longest ago.
func TestSecDigestsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFront(t, "127.0.0.1:1", false)
	f.fail(func(w http.ResponseWriter, r *http.Request) bool { // a registry without anything but a list of no tags
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			_, _ = io.WriteString(w, `{"tags":[]}`)
			return true
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	s := newSignedSubject(t, f, upstream.Verification{CosignKeys: signtest.NewKey(t, signtest.P256).PublicKey(t)})
	s.fetch(t)
	const bound, batch = 1000, 100 // one call of another replica names so many
	name := func(i int) string { return fmt.Sprintf("%s%064x", mirror.DigestPrefix, i) }
	for first := 0; first < bound+batch; first += batch {
		var names []string
		for i := range batch {
			names = append(names, name(first+i))
		}
		s.now = s.now.Add(time.Minute)
		c, err := s.Pin(t.Context(), s.params(), names)
		if err != nil {
			t.Fatal(err)
		}
		s.have = c
	}
	_, hasFirst := s.have.Refs.Get(name(0))
	_, hasLast := s.have.Refs.Get(name(bound + batch - 1))
	if len(s.have.Refs) != bound || hasFirst || !hasLast {
		t.Errorf("got %d refs, the first %v, the last %v, want the last %d", len(s.have.Refs), hasFirst, hasLast, bound)
	}
	f.take()
	s.fetch(t)
	if requests := f.take(); len(requests) > 64*3+1 {
		t.Errorf("got a poll of %d requests, want it bounded", len(requests))
	}
}
