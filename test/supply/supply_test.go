// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/test/supply"
)

// advisory is a made-up advisory, in the form of the Go vulnerability database.
const advisory = `{
  "schema_version": "1.3.1", "id": "GO-0000-0001", "modified": "2026-01-01T00:00:00Z", "aliases": ["CVE-0000-1"], "summary": "made up",
  "affected": [{
    "package": {"name": "example.com/m", "ecosystem": "Go"},
    "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}, {"fixed": "1.2.3"}, {"introduced": "1.4.0"}, {"fixed": "1.4.2"}]}],
    "ecosystem_specific": {"imports": [{"path": "example.com/m/bad", "symbols": ["F"]}]}
  }, {
    "package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "1.26.0-0"}, {"fixed": "1.26.9"}]}],
    "ecosystem_specific": {}
  }]
}`

// database writes a folder with the advisory, in the layout of an unpacked vulndb.zip.
func database(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"ID/GO-0000-0001.json": content, "index/db.json": `{"modified": "x"}`, "index/modules.json": `[]`} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVulnerableModulesAreFound(t *testing.T) {
	t.Parallel()
	dir := database(t, advisory)
	archive := filepath.Join(t.TempDir(), "vulndb.zip")
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, location := range []string{dir, "file://" + dir, archive} {
		known, err := supply.ReadDatabase(location)
		if err != nil || len(known) != 1 {
			t.Fatalf("%s: got %d advisories, %v, want one", location, len(known), err)
		}
		for _, test := range []struct {
			path, version, pkg string
			fixed              string // empty: not affected
		}{
			{"example.com/m", "v1.0.0", "bad", "v1.2.3"},
			{"example.com/m", "v0.0.0-20200101000000-abcdefabcdef", "bad", "v1.2.3"},
			{"example.com/m", "v1.2.3-rc.1", "bad", "v1.2.3"},
			{"example.com/m", "v1.2.3", "bad", ""},
			{"example.com/m", "v1.4.1", "bad", "v1.4.2"},
			{"example.com/m", "v1.4.2", "bad", ""},
			{"example.com/m", "v1.0.0", "good", ""},
			{"example.com/other", "v1.0.0", "bad", ""},
			{"stdlib", "v1.26.8", "net/http", "v1.26.9"},
			{"stdlib", "v1.26", "net/http", "v1.26.9"},
			{"stdlib", "v1.26.9", "net/http", ""},
			{"stdlib", "v1.25.9", "net/http", ""},
		} {
			module := supply.Module{Path: test.path, Version: test.version, Packages: []string{test.path + "/" + test.pkg}}
			findings := supply.Check(known, []supply.Module{module})
			switch {
			case test.fixed == "" && len(findings) != 0:
				t.Errorf("%s %s %s: got %+v, want nothing", test.path, test.version, test.pkg, findings)
			case test.fixed != "" && (len(findings) != 1 || findings[0].Fixed != test.fixed || findings[0].ID != "GO-0000-0001"):
				t.Errorf("%s %s %s: got %+v, want it found, and fixed in %s", test.path, test.version, test.pkg, findings, test.fixed)
			}
		}
	}
	withdrawn := strings.Replace(advisory, `"summary"`, `"withdrawn": "2026-01-02T00:00:00Z", "summary"`, 1)
	known, err := supply.ReadDatabase(database(t, withdrawn))
	if err != nil || len(supply.Check(known, []supply.Module{{Path: "stdlib", Version: "v1.26.8"}})) != 0 {
		t.Errorf("got a finding, %v, want nothing of an advisory that was withdrawn", err)
	}
	for name, content := range map[string]string{"no JSON": "x", "no advisories": "{}"} {
		if _, err := supply.ReadDatabase(database(t, content)); err == nil {
			t.Errorf("%s: got no error, want a check that cannot find anything to fail", name)
		}
	}
	if _, err := supply.ReadDatabase(filepath.Join(dir, "none")); err == nil {
		t.Error("got no error for a database that is not there")
	}
}

// TestSecDependenciesAreNotKnownBad checks the modules of every program against the advisories of
// this repository.
func TestSecDependenciesAreNotKnownBad(t *testing.T) {
	t.Parallel()
	modules, err := supply.Modules(t.Context(), "../..", supply.Programs()...)
	if err != nil {
		t.Fatal(err)
	}
	known, err := supply.ReadDatabase("advisories")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range supply.Check(known, modules) {
		t.Errorf("%s %s: %s (%s), fixed in %s", f.Module.Path, f.Module.Version, f.ID, f.Summary, f.Fixed)
	}
	// With modules as old as the advisory, each advisory must be found: it must not be misspelt, or
	// name a module or package that is not in use.
	inUse := map[string]supply.Module{}
	for _, m := range modules {
		inUse[m.Path] = m
	}
	for _, wanted := range []string{"stdlib", "golang.org/x/net", "golang.org/x/crypto", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5", "github.com/go-jose/go-jose/v4"} {
		if inUse[wanted].Version == "" {
			t.Errorf("the list of modules does not have %s", wanted)
		}
	}
	old := 0
	for _, a := range known {
		for _, affected := range a.Affected {
			m, ok := inUse[affected.Package.Name]
			if !ok {
				continue
			}
			for _, i := range affected.Specific.Imports {
				m.Packages = append(slices.Clone(m.Packages), i.Path)
			}
			m.Version = "v" + affected.Ranges[0].Events[0].Introduced
			if m.Version == "v0" {
				m.Version = "v0.0.1"
			}
			if len(supply.Check([]supply.Advisory{a}, []supply.Module{m})) != 1 {
				t.Errorf("%s does not find %s %s", a.ID, m.Path, m.Version)
			}
			old++
		}
	}
	if old < 10 {
		t.Errorf("%d advisories are about modules that are in use, want more", old)
	}
}

// TestSBOM writes the inventory of a program with dependencies: this package's own.
func TestSBOM(t *testing.T) {
	t.Parallel()
	binary, err := program.Compile(t.Context(), t.TempDir(), "./cmd/leat-supply")
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := supply.WriteSBOM(w, binary, "", supply.WebUI{}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program has two inventories")
	}
	var document struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Component struct {
				Name   string
				Hashes []struct{ Alg, Content string }
			}
		}
		Components []struct {
			Type, Name, Version, PURL string
			Properties                []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(first.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if document.BOMFormat != "CycloneDX" || document.SpecVersion != "1.5" || !strings.HasPrefix(document.SerialNumber, "urn:uuid:") || len(document.SerialNumber) != 45 ||
		document.Metadata.Component.Hashes[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("got %+v, want CycloneDX 1.5 about this program", document)
	}
	found := map[string]string{}
	for _, c := range document.Components {
		found[c.Name] = c.PURL
		if c.Name == "golang.org/x/mod" && (len(c.Properties) != 1 || !strings.HasPrefix(c.Properties[0].Value, "h1:")) {
			t.Errorf("%s has no checksum: %v", c.Name, c.Properties)
		}
	}
	if !strings.HasPrefix(found["golang.org/x/mod"], "pkg:golang/golang.org/x/mod@v0.") || !strings.HasPrefix(found["std"], "pkg:golang/std@1.") {
		t.Errorf("got %v, want the module and the standard library", found)
	}
	if err := supply.WriteSBOM(&first, "supply_test.go", "", supply.WebUI{}); err == nil {
		t.Error("got no error for a file that Go did not build")
	}
}

// registry answers as registries do: it returns a manifest to callers that have obtained a token
// from it.
func registry(t *testing.T, lie bool) (host, digest string) {
	t.Helper()
	manifest := []byte(`{"schemaVersion":2}`)
	sum := sha256.Sum256(manifest)
	digest = "sha256:" + hex.EncodeToString(sum[:])
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			if r.URL.Query().Get("scope") != "repository:some/image:pull" || r.URL.Query().Get("service") != "here" {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(`{"token": "t"}`))
		case r.Header.Get("Authorization") != "Bearer t":
			w.Header().Set("Www-Authenticate", `Bearer realm="`+server.URL+`/token",service="here",scope="repository:some/image:pull"`)
			http.Error(w, "who?", http.StatusUnauthorized)
		case r.URL.Path == "/v2/some/image/manifests/1.2":
			w.Header().Set("Docker-Content-Digest", digest)
			if lie {
				w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			}
			_, _ = w.Write(manifest)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), digest
}

func TestPin(t *testing.T) {
	t.Parallel()
	host, digest := registry(t, false)
	image := host + "/some/image:1.2"
	own := supply.Own{Repository: "registry.example.com/ours", Tag: "1.2.3"}
	registries := supply.Registries{Client: http.DefaultClient, Scheme: "http", Own: own}
	for name, content := range map[string]string{
		"Dockerfile": "FROM IMAGE AS build\nFROM build\nCOPY --from=build /x /x\nFROM scratch AS x-a\nFROM x-${X} AS x\nFROM scratch\n",
		"Compose":    "services:\n  x:\n    image: IMAGE\n  own:\n    image: registry.example.com/ours/x:1.2.3\n",
		"manifest":   "      containers:\n        - name: x\n          image: IMAGE # a comment\n        - image: IMAGE\n",
	} {
		once := strings.ReplaceAll(content, "IMAGE", image)
		pinned, images, err := registries.Pin(t.Context(), once)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := strings.ReplaceAll(content, "IMAGE", image+"@"+digest); pinned != want || len(images) == 0 {
			t.Errorf("%s: got\n%s\nwant\n%s", name, pinned, want)
		}
		before, err1 := supply.Unpinned(once, own)
		after, err2 := supply.Unpinned(pinned, own)
		if err1 != nil || err2 != nil || len(before) == 0 || len(after) != 0 {
			t.Errorf("%s: got %v and %v, %v and %v without a digest, want none after they were pinned", name, before, after, err1, err2)
		}
		old := strings.ReplaceAll(content, "IMAGE", image+"@sha256:"+strings.Repeat("a", 64))
		again, _, err := registries.Pin(t.Context(), old)
		if err != nil || again != pinned {
			t.Errorf("%s: got %v and\n%s\nwant the old digest replaced", name, err, again)
		}
	}
	for name, text := range map[string]string{
		"an image that is not there": host + "/some/image:9", "no tag": host + "/some/image", "a bad digest": image + "@sha256:abc", "an image that a variable chooses": "x-${X}",
	} {
		if _, _, err := registries.Pin(t.Context(), "image: "+text+"\n"); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	liar, _ := registry(t, true)
	if _, _, err := registries.Pin(t.Context(), "image: "+liar+"/some/image:1.2\n"); err == nil || !strings.Contains(err.Error(), "its manifest has") {
		t.Errorf("got %v, want a digest that does not fit refused", err)
	}
}

func TestParseImage(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, good := range []string{
		"redis:7.4-alpine", "otel/opentelemetry-collector:0.140.0", "gcr.io/distroless/static-debian12:nonroot", "localhost:5000/a/b:c", "some/image",
		"redis:7.4-alpine@" + digest, "redis@" + digest,
	} {
		if image, err := supply.ParseImage(good); err != nil || image.String() != good {
			t.Errorf("got %q, %v, want %s", image.String(), err, good)
		}
	}
	for _, bad := range []string{"", "Redis:7", "redis:7@sha256:abc", "redis:7@" + digest + "0", "redis:7@md5:" + strings.Repeat("0", 32), "redis:7@sha256:" + strings.Repeat("0A", 32), "redis: 7"} {
		if image, err := supply.ParseImage(bad); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, image)
		}
	}
}

func TestReadOwn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		want    supply.Own
	}{
		"both":     {"# IMAGE_TAG=0\nIMAGE_REPOSITORY=registry.example.com/ours\nIMAGE_TAG=1.2.3-dev\n", supply.Own{Repository: "registry.example.com/ours", Tag: "1.2.3-dev"}},
		"no tag":   {"IMAGE_REPOSITORY=registry.example.com/ours\n", supply.Own{}},
		"a script": {"IMAGE_REPOSITORY=registry.example.com/ours\nIMAGE_TAG=$(date)\n", supply.Own{}},
	} {
		top := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(top, "deploy"), 0o700), os.WriteFile(filepath.Join(top, "deploy", "images.env"), []byte(c.content), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got, err := supply.ReadOwn(top); got != c.want || (err == nil) != (c.want != supply.Own{}) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	own := supply.Own{Repository: "registry.example.com/ours", Tag: "1.2.3"}
	for text, want := range map[string]bool{
		own.Image("x"): true, own.Name("x") + ":other": true, "registry.example.com/oursx/x:1.2.3": false, "ours/x:1.2.3": false, "redis:7.4-alpine": false,
	} {
		if image, err := supply.ParseImage(text); err != nil || own.Has(image) != want {
			t.Errorf("%s: got its own: %t, %v, want %t", text, !want, err, want)
		}
	}
}
