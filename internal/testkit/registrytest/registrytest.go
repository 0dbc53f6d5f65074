// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package registrytest runs a real OCI registry for a test: the distribution project's, on a loopback
// port and in a folder of its own. It is compiled once; see tools/registry.
package registrytest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/program"
)

// The media types of what tests push.
const (
	ManifestType   = "application/vnd.oci.image.manifest.v1+json"
	IndexType      = "application/vnd.oci.image.index.v1+json"
	ChartLayerType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	ChartType      = "application/vnd.cncf.helm.config.v1+json"
)

const emptyJSON = "{}"

// Config sets how a registry is run. The zero value lets everybody push.
type Config struct {
	// Username and Password are asked for by basic authentication. Empty: by none.
	Username, Password string
	// Tokens are asked for instead of a password. Nil: none are.
	Tokens *Tokens
	// Notify is a URL that is notified of pushes, with NotifyAuthorization as its header. Empty: none
	// is.
	Notify, NotifyAuthorization string
}

// Tokens select the tokens that the registry takes (the distribution project's token
// specification).
type Tokens struct {
	Realm, Service, Issuer string
	// JWKS is the set of keys that sign them.
	JWKS []byte
}

// Registry is a running registry. It ends with the test.
type Registry struct {
	// Addr is its host:port; it speaks plain HTTP.
	Addr string

	config  Config
	running *program.Program
	// Authorization is the header of pushes. Start sets it for basic authentication.
	Authorization string
}

// Start runs a registry, compiles it first if necessary, and returns once it serves.
func Start(t testing.TB, config Config) *Registry {
	t.Helper()
	path, dir := program.Build(t, "registry"), t.TempDir()
	r := &Registry{Addr: loopback.Addr(t), config: config}
	settings := map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "error", "accesslog": map[string]any{"disabled": true}},
		"storage": map[string]any{
			"filesystem":  map[string]any{"rootdirectory": filepath.Join(dir, "data")},
			"delete":      map[string]any{"enabled": true},
			"maintenance": map[string]any{"uploadpurging": map[string]any{"enabled": false}},
		},
		"http": map[string]any{"addr": r.Addr, "relativeurls": true},
	}
	switch {
	case config.Tokens != nil:
		keys := filepath.Join(dir, "jwks.json")
		write(t, keys, config.Tokens.JWKS)
		settings["auth"] = map[string]any{"token": map[string]any{
			"realm": config.Tokens.Realm, "service": config.Tokens.Service, "issuer": config.Tokens.Issuer, "jwks": keys,
			"signingalgorithms": []string{"EdDSA", "ES256", "RS256"},
		}}
	case config.Username != "":
		hash, err := bcrypt.GenerateFromPassword([]byte(config.Password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users := filepath.Join(dir, "htpasswd")
		write(t, users, fmt.Appendf(nil, "%s:%s\n", config.Username, hash))
		settings["auth"] = map[string]any{"htpasswd": map[string]any{"realm": "registrytest", "path": users}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(config.Username, config.Password)
		r.Authorization = request.Header.Get("Authorization")
	}
	if config.Notify != "" {
		settings["notifications"] = map[string]any{"endpoints": []any{map[string]any{
			"name": "test", "url": config.Notify, "timeout": "5s", "threshold": 10, "backoff": "100ms",
			"headers": map[string]any{"Authorization": []string{config.NotifyAuthorization}},
		}}}
	}
	text, err := json.Marshal(settings) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yml")
	write(t, file, text)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), path, "serve", file)
	command.Dir = dir
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "OTEL_TRACES_EXPORTER=none"}
	r.running = program.Start(t, command)
	r.running.Await(t, func() bool {
		status, _ := r.try(t.Context(), http.MethodGet, "/v2/", "", nil)
		return status == http.StatusOK || status == http.StatusUnauthorized
	})
	return r
}

// Stop ends the registry. It does not come back.
func (r *Registry) Stop() { r.running.End(os.Kill) }

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Layer is a layer of an artifact.
type Layer struct {
	MediaType string
	Title     string // empty: it has none
	Data      []byte
	// Annotations are the descriptor's annotations besides the title.
	Annotations map[string]string
}

// Push pushes an artifact under a tag, and returns the digits of its digest.
func (r *Registry) Push(t testing.TB, name, tag, configType string, layers ...Layer) string {
	t.Helper()
	return r.PushManifest(t, name, tag, ManifestType, r.manifest(t, name, configType, layers))
}

// PushReferrer pushes an artifact without a tag that refers to another one by the digits of its digest,
// and returns the descriptor that a list of referrers has of it. The registry itself keeps no such
// lists.
func (r *Registry) PushReferrer(t testing.TB, name, subject, artifactType string, layers ...Layer) map[string]any {
	t.Helper()
	m := r.manifest(t, name, "application/vnd.oci.empty.v1+json", layers)
	m["artifactType"] = artifactType
	m["subject"] = map[string]any{"mediaType": ManifestType, "digest": "sha256:" + subject, "size": 1}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	digest := r.PushManifest(t, name, "sha256:"+sum(data), ManifestType, m)
	return map[string]any{"mediaType": ManifestType, "digest": "sha256:" + digest, "size": len(data), "artifactType": artifactType}
}

// PushReferrers pushes the list of referrers that stands in for one in a registry without lists: an
// index under a tag made of the subject's digest.
func (r *Registry) PushReferrers(t testing.TB, name, subject string, referrers ...map[string]any) {
	t.Helper()
	r.PushManifest(t, name, "sha256-"+subject, IndexType, map[string]any{
		"schemaVersion": 2, "mediaType": IndexType, "manifests": referrers,
	})
}

// manifest pushes config and layers, and returns the manifest of them.
func (r *Registry) manifest(t testing.TB, name, configType string, layers []Layer) map[string]any {
	t.Helper()
	config := r.blob(t, name, Layer{MediaType: configType, Data: []byte(emptyJSON)})
	pushed := make([]any, 0, len(layers))
	for _, layer := range layers {
		pushed = append(pushed, r.blob(t, name, layer))
	}
	return map[string]any{"schemaVersion": 2, "mediaType": ManifestType, "config": config, "layers": pushed}
}

// PushManifest pushes any manifest under a tag, and returns the digits of its digest.
func (r *Registry) PushManifest(t testing.TB, name, tag, mediaType string, manifest any) string {
	t.Helper()
	data, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	status, answer := r.try(t.Context(), http.MethodPut, "/v2/"+name+"/manifests/"+tag, mediaType, data)
	if status != http.StatusCreated {
		t.Fatalf("push %s:%s: got status %d: %s", name, tag, status, answer)
	}
	return sum(data)
}

// Manifest returns the bytes of the manifest with those digits.
func (r *Registry) Manifest(t testing.TB, name, digest string) []byte {
	t.Helper()
	got, err := r.exchange(t.Context(), http.MethodGet, "/v2/"+name+"/manifests/sha256:"+digest, "", nil)
	if err != nil || got.status != http.StatusOK {
		t.Fatalf("read %s: got status %d: %s (%v)", digest, got.status, got.body, err)
	}
	return []byte(got.body)
}

// Delete deletes a manifest, and with it every tag that leads to it.
func (r *Registry) Delete(t testing.TB, name, digest string) {
	t.Helper()
	if status, answer := r.try(t.Context(), http.MethodDelete, "/v2/"+name+"/manifests/sha256:"+digest, "", nil); status != http.StatusAccepted {
		t.Fatalf("delete %s: got status %d: %s", name, status, answer)
	}
}

// blob pushes a blob and returns its descriptor.
func (r *Registry) blob(t testing.TB, name string, layer Layer) map[string]any {
	t.Helper()
	digest := "sha256:" + sum(layer.Data)
	got, err := r.exchange(t.Context(), http.MethodPost, "/v2/"+name+"/blobs/uploads/", "", nil)
	if err != nil || got.status != http.StatusAccepted {
		t.Fatalf("push blob: got status %d: %s (%v)", got.status, got.body, err)
	}
	to, err := url.Parse(got.location)
	if err != nil {
		t.Fatal(err)
	}
	values := to.Query()
	values.Set("digest", digest)
	got, err = r.exchange(t.Context(), http.MethodPut, to.Path+"?"+values.Encode(), "application/octet-stream", layer.Data)
	if err != nil || got.status != http.StatusCreated {
		t.Fatalf("push blob: got status %d: %s (%v)", got.status, got.body, err)
	}
	annotations := maps.Clone(layer.Annotations)
	if layer.Title != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["org.opencontainers.image.title"] = layer.Title
	}
	d := map[string]any{"mediaType": layer.MediaType, "digest": digest, "size": len(layer.Data)}
	if len(annotations) > 0 {
		d["annotations"] = annotations
	}
	return d
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// answer is the registry's answer.
type answer struct {
	status         int
	location, body string
}

// try returns status 0 where there was no answer.
func (r *Registry) try(ctx context.Context, method, path, mediaType string, data []byte) (status int, body string) {
	got, err := r.exchange(ctx, method, path, mediaType, data)
	if err != nil {
		return 0, err.Error()
	}
	return got.status, got.body
}

func (r *Registry) exchange(ctx context.Context, method, path, mediaType string, data []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Addr+path, bytes.NewReader(data))
	if err != nil {
		return answer{}, err
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	req.Header.Set("Accept", ManifestType+", "+IndexType)
	if r.Authorization != "" {
		req.Header.Set("Authorization", r.Authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, location: resp.Header.Get("Location"), body: string(text)}, err
}
